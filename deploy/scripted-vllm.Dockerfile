# The scripted vLLM, which the overlay deploy/k8s/overlays/local tries the gateway with. It is in no image of a gateway, and
# belongs into no deployment: it says whatever it is told to.
#   docker build -f deploy/scripted-vllm.Dockerfile -t scripted-vllm:0.1.0 .
ARG PYTHON=python:3.13-slim-bookworm
# What it is built in: the same Python, with pip.
ARG BUILDER=${PYTHON}

FROM ${BUILDER} AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/build && python -m venv --without-pip /opt/scripted-vllm
# As in the gateway's Dockerfile: wheels with the hashes that are pinned, compiled to bytecode.
COPY requirements/build.txt requirements/scripted.txt requirements/
RUN pip --python /opt/build/bin/python install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt
RUN pip --python /opt/scripted-vllm/bin/python install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r requirements/scripted.txt
COPY LICENSE ./
COPY scripted_vllm scripted_vllm
RUN pip --python /opt/build/bin/python wheel --no-index --no-deps --no-build-isolation --wheel-dir /opt/build ./scripted_vllm
RUN pip --python /opt/scripted-vllm/bin/python install --no-compile --no-index --no-deps --find-links /opt/build extproc-scripted-vllm
RUN PYTHONHASHSEED=0 python -m compileall -q -f --invalidation-mode unchecked-hash /opt/scripted-vllm/lib || test $? -eq 1

FROM ${PYTHON}
COPY --from=build /opt/scripted-vllm /opt/scripted-vllm
ENV PATH=/opt/scripted-vllm/bin:$PATH
USER 65532:65532
ENTRYPOINT ["python", "-m", "scripted_vllm"]
CMD ["--help"]
