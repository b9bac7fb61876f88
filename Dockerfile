# An image in which a job of a campaign runs.
#
#   docker build -t gdlib --build-arg COMMIT=$(git rev-parse --short=12 HEAD) .
#   docker run --rm gdlib python -m study.campaign run quick digits-seed0
#
# PIP_EXTRA_INDEX_URL, as a build argument, names an index with PyTorch's builds for CPUs, which are smaller.
# BASE takes the place of the base image, by its digest for instance: --build-arg BASE=python:3.11-slim@sha256:...
ARG BASE=python:3.11-slim
FROM ${BASE}

ARG PIP_EXTRA_INDEX_URL
WORKDIR /project
COPY pyproject.toml setup.py _config.yml constraints.txt README.md LICENSE ./
COPY gdlib gdlib
RUN python -m pip install --no-cache-dir --disable-pip-version-check -c constraints.txt -e ".[workflow]"
COPY . .

# one thread for each process; the commit, for the results
ARG COMMIT
ENV PYTHONPATH=/project OMP_NUM_THREADS=1 GDLIB_COMMIT=${COMMIT}

# a job needs no rights; it writes into the project alone
RUN useradd --create-home --uid 1000 reader && chown -R reader /project
USER reader
