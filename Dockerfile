# The one image: every service is a subcommand of the program in it. Target `node`: the same with a container runtime.
#
# PROGRAM may name an image that holds /usr/local/bin/oarlock already, PACKAGES one with a node's packages; then nothing is compiled or installed
# (`cargo xtask images`).
ARG PROGRAM=build
ARG PACKAGES=packages

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist -p oarlock && install -s target/dist/oarlock /usr/local/bin/oarlock

FROM ${PROGRAM} AS program

FROM debian:bookworm-slim AS packages
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates containerd containernetworking-plugins iptables runc \
    && rm -rf /var/lib/apt/lists/*

FROM ${PACKAGES} AS node
COPY --from=program /usr/local/bin/oarlock /usr/local/bin/oarlock

FROM debian:bookworm-slim
# Nobody is root here. A volume that is new belongs to whom the folder belongs that it is first mounted over: those of compose.yaml.
RUN install -d -m 0700 -o 65532 -g 65532 /data /data/etcd-0 /data/etcd-1 /data/etcd-2 /data/konnectivity /data/prometheus /keys /parts /parts/admission /parts/apiserver \
    /parts/cloud-controller-manager /parts/containerd-node /parts/controller-manager /parts/etcd /parts/konnectivity-agent \
    /parts/konnectivity-server /parts/monitoring /parts/nats /parts/nodes /parts/scheduler /parts/user
COPY --from=program /usr/local/bin/oarlock /usr/local/bin/oarlock
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/oarlock"]
