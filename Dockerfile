# Images with fastload; docs/install.md has the commands that build them.
#
#   cpu      the default: Debian's own torch and torchvision, which are for the processor alone
#   cuda     torch and torchvision as pip finds them, on x86-64 a CUDA build; the build arguments TORCH, TORCHVISION
#            and PIP_INDEX_URL choose others
#   develop  what compiles the extension; .devcontainer uses it
#
# `make fresh ARGS="--image cpu"` runs these steps without a container engine.

FROM debian:trixie-slim AS develop
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git make python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

FROM develop AS build
WORKDIR /source
COPY setup.py setup_cuda.py pyproject.toml README.md LICENSE ./
COPY csrc csrc
COPY fastload fastload
RUN python3 -m venv /build \
    && /build/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM debian:trixie-slim AS cuda
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/fastload \
    && useradd --uid 1000 --create-home --home-dir /fastload fastload
ENV PATH=/opt/fastload/bin:/usr/local/bin:/usr/bin:/bin
ARG TORCH=torch
ARG TORCHVISION=torchvision
ARG PIP_INDEX_URL
RUN pip install --no-cache-dir "${TORCH}" "${TORCHVISION}"
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl
USER 1000
WORKDIR /fastload
CMD ["fastload", "info"]

FROM debian:trixie-slim AS cpu
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        python3-numpy python3-pil python3-torch python3-torchvision python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv --system-site-packages /opt/fastload \
    && useradd --uid 1000 --create-home --home-dir /fastload fastload
ENV PATH=/opt/fastload/bin:/usr/local/bin:/usr/bin:/bin
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl
USER 1000
WORKDIR /fastload
CMD ["fastload", "info"]
