# Two images: the operator (--target operator) and the runtime (--target runtime, the default).
# For `buildah build` and `docker build`; tools/images.py runs either and caches what comes out.
#
#   BASE                    any Debian image with Python 3.11 or newer
#   CPU_VARIANTS            all, or names of ggml's CPU variants; x64, the baseline, must be one
#   VERSION                 the project's version
#   secret ca-certificates  optional: the CA bundle that downloads are checked against
ARG BASE=docker.io/library/python:3.11-slim-bookworm


# What both images stand on. The standard library is compiled here, because a read-only root
# never lets Python keep what it compiles at start.
FROM ${BASE} AS base
RUN python3 -m compileall -q -x '/(test|tests|idlelib|lib2to3|turtledemo|(site|dist)-packages)/' \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1


# Compilers and pip: nothing of this stage reaches an image.
FROM base AS build
ENV CA=/run/secrets/ca-certificates
RUN --mount=type=secret,id=ca-certificates,mode=0444 \
    if [ -s $CA ]; then echo "Acquire::https::CaInfo \"$CA\";" > /etc/apt/apt.conf.d/90ca; fi \
    && apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
        ca-certificates cmake g++ ninja-build python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_QUIET=1
COPY requirements/build.txt /build/
RUN --mount=type=secret,id=ca-certificates \
    if [ -s $CA ]; then export PIP_CERT=$CA; fi \
    && python3 -m venv /build/venv \
    && /build/venv/bin/pip install --require-hashes -r /build/build.txt


FROM build AS operator-packages
COPY requirements/operator.txt /build/
RUN --mount=type=secret,id=ca-certificates \
    if [ -s $CA ]; then export PIP_CERT=$CA; fi \
    && python3 -m venv --without-pip /opt/venv \
    && /build/venv/bin/pip --python /opt/venv/bin/python install --no-compile --no-deps \
        --require-hashes --only-binary :all: -r /build/operator.txt \
    && find /opt/venv -type d \( -name test -o -name tests \) -prune -exec rm -rf {} + \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/venv/lib


FROM base AS operator-code
ARG VERSION=dev
COPY operator/llama_operator /app/llama_operator
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /app \
    && mkdir /app/llama_operator-${VERSION}.dist-info \
    && printf 'Metadata-Version: 2.1\nName: llama-operator\nVersion: %s\n' "${VERSION}" \
        > /app/llama_operator-${VERSION}.dist-info/METADATA


FROM base AS operator
COPY --from=operator-packages /opt/venv /opt/venv
COPY --from=operator-code /app /app
ENV PYTHONPATH=/app
USER 65532:65532
ENTRYPOINT ["/opt/venv/bin/python", "-m", "llama_operator"]
ARG VERSION=dev
LABEL org.opencontainers.image.title="llama-operator" \
      org.opencontainers.image.description="Turns LlamaDeployment resources into pods that serve llama.cpp." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"


# Only the lines of llama-cpp-python: a change of another pin compiles nothing again.
FROM build AS llama-pin
COPY requirements/runtime.txt /build/
RUN sed -n '/^llama-cpp-python==/,/[^\\]$/p' /build/runtime.txt > /build/llama.txt


# The source distribution holds llama.cpp; its Python part becomes a wheel without native code.
FROM build AS llama-source
COPY --from=llama-pin /build/llama.txt /build/
RUN --mount=type=secret,id=ca-certificates \
    if [ -s $CA ]; then export PIP_CERT=$CA; fi \
    && /build/venv/bin/pip download --no-deps --require-hashes --no-build-isolation \
        --no-binary llama-cpp-python --dest /build/download -r /build/llama.txt \
    && mkdir /build/source \
    && tar -xzf /build/download/*.tar.gz -C /build/source --strip-components 1 \
    && rm -r /build/download \
    && CMAKE_ARGS=-DLLAMA_BUILD=OFF /build/venv/bin/pip wheel --no-deps --no-build-isolation \
        --wheel-dir /build/wheels /build/source


# libllama and ggml. Each CPU variant is a plugin; the best one for the node is chosen at start.
# Without OpenMP, because its threads slow down for good once two threads have called llama_decode.
FROM llama-source AS llama-compile
ARG CPU_VARIANTS=all
WORKDIR /build/source/vendor/llama.cpp
# CMake makes libggml wait for every variant. A list takes that line out and names its own.
RUN case " ${CPU_VARIANTS} " in \
        *" all "*) targets=llama ;; \
        *" x64 "*) targets=llama; for variant in ${CPU_VARIANTS}; do targets="$targets ggml-cpu-$variant"; done; \
            sed -i '/add_dependencies(ggml ${backend})/d' ggml/src/CMakeLists.txt ;; \
        *) echo "CPU_VARIANTS is '${CPU_VARIANTS}': add x64, the one that every x86-64 CPU runs." >&2; exit 1 ;; \
    esac \
    && cmake -G Ninja -B /build/tree \
        -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH='$ORIGIN' \
        -DCMAKE_PLATFORM_NO_VERSIONED_SONAME=ON \
        -DBUILD_SHARED_LIBS=ON \
        -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON -DGGML_NATIVE=OFF \
        -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF \
        -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF \
    && ninja -C /build/tree $targets \
    && mkdir -p /opt/llama/lib \
    && cp /build/tree/bin/*.so /opt/llama/lib/ \
    && strip --strip-unneeded /opt/llama/lib/*.so \
    && cp LICENSE /opt/llama/ \
    && rm -r /build/tree


# One folder with one copy of everything, so that plugins and libllama meet the same ggml.
FROM scratch AS libllama
COPY --from=llama-compile /opt/llama /opt/llama


FROM build AS runtime-packages
COPY requirements/runtime.txt /build/
COPY --from=llama-source /build/wheels /build/wheels
RUN --mount=type=secret,id=ca-certificates \
    if [ -s $CA ]; then export PIP_CERT=$CA; fi \
    && python3 -m venv --without-pip /opt/venv \
    && sed '/^llama-cpp-python==/,/[^\\]$/d' /build/runtime.txt > /build/others.txt \
    && pip="/build/venv/bin/pip --python /opt/venv/bin/python install --no-compile --no-deps" \
    && $pip --require-hashes --only-binary :all: -r /build/others.txt \
    && $pip --no-index /build/wheels/*.whl \
    && find /opt/venv -type d \( -name test -o -name tests \) -prune -exec rm -rf {} + \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/venv/lib


FROM base AS runtime-code
ARG VERSION=dev
COPY runtime/llama_runtime /app/llama_runtime
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /app \
    && mkdir /app/llama_operator-${VERSION}.dist-info \
    && printf 'Metadata-Version: 2.1\nName: llama-operator\nVersion: %s\n' "${VERSION}" \
        > /app/llama_operator-${VERSION}.dist-info/METADATA


FROM base AS runtime
COPY --from=runtime-packages /opt/venv /opt/venv
COPY --from=libllama /opt/llama /opt/llama
COPY --from=runtime-code /app /app
# Without GGML_NO_BACKTRACE an abort of ggml starts a debugger, if there is one, before it ends.
# glibc would keep up to eight arenas for each CPU, each with its own unused memory.
ENV PYTHONPATH=/app \
    LLAMA_CPP_LIB_PATH=/opt/llama/lib \
    GGML_NO_BACKTRACE=1 \
    MALLOC_ARENA_MAX=2
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/opt/venv/bin/python", "-m", "llama_runtime"]
ARG VERSION=dev
LABEL org.opencontainers.image.title="llama-runtime" \
      org.opencontainers.image.description="Serves one model from one llama.cpp context over an OpenAI-compatible API." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
