// Compiles a part of a file for an instruction set that the rest of the build does not assume.
#pragma once

// Note [target regions]
// The build passes no -march: a kernel names its instructions itself, between FASTLOAD_BEGIN_TARGET and
// FASTLOAD_END_TARGET, and only runs if the processor has them (kernels/dispatch.h). All includes come before the
// region, and everything in it except the functions of the table is in an unnamed namespace: an inline function or a
// template of a header that was compiled in a region could replace the ordinary one in the whole program, which would
// then crash on a processor without those instructions. For the same reason code in a region calls no function template
// of the standard library; a check of the object files' symbols enforces it.
#if defined(__x86_64__)
#define FASTLOAD_HAS_X86_KERNELS 1
#else
#define FASTLOAD_HAS_X86_KERNELS 0
#endif

#define FASTLOAD_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define FASTLOAD_BEGIN_TARGET(features) \
    FASTLOAD_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define FASTLOAD_END_TARGET FASTLOAD_PRAGMA(clang attribute pop)
#else
// GCC 12 reports the undefined vectors in its own AVX-512 headers as mistakes of the code that uses them.
#define FASTLOAD_BEGIN_TARGET(features)                       \
    FASTLOAD_PRAGMA(GCC push_options)                         \
    FASTLOAD_PRAGMA(GCC target(features))                     \
    FASTLOAD_PRAGMA(GCC diagnostic push)                      \
    FASTLOAD_PRAGMA(GCC diagnostic ignored "-Wuninitialized") \
    FASTLOAD_PRAGMA(GCC diagnostic ignored "-Wmaybe-uninitialized")
#define FASTLOAD_END_TARGET FASTLOAD_PRAGMA(GCC diagnostic pop) FASTLOAD_PRAGMA(GCC pop_options)
#endif

// The instruction sets that each table of kernels needs.
#define FASTLOAD_AVX2_FEATURES "avx2,fma,bmi,bmi2,popcnt"
#define FASTLOAD_AVX512_FEATURES \
    FASTLOAD_AVX2_FEATURES ",avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni"
