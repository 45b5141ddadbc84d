# The one image: every service is a subcommand of the program in it.
#
# PROGRAM may name an image that holds /usr/local/bin/oarlock already; then nothing is compiled (`cargo xtask images`).
ARG PROGRAM=build

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release -p oarlock && install -s target/release/oarlock /usr/local/bin/oarlock

FROM ${PROGRAM} AS program

FROM debian:bookworm-slim
COPY --from=program /usr/local/bin/oarlock /usr/local/bin/oarlock
ENTRYPOINT ["/usr/local/bin/oarlock"]
