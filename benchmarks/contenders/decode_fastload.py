"""fastload.decode_image."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders._decoder import DecoderContender


class DecodeFastload(DecoderContender):
    promises_equal_bytes = True
    packages = ("numpy", "fastload", "pillow")

    def unavailable_because(self) -> str | None:
        try:
            import fastload

            fastload.build_info()
        except (ImportError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def details(self) -> dict[str, str]:
        import fastload

        return {"build_info": str(fastload.build_info())}

    def decode(self, data: bytes) -> Any:
        from fastload import decode_image

        return decode_image(data, output="numpy")
