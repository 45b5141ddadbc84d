//! Tests of parts together in one process: a real API server over a store in memory, and its clients.

#![cfg(test)]

mod bad_input;
mod balancer;
mod chart;
mod client_go;
mod cloud;
mod cluster;
mod compose_file;
mod containerd;
mod controllers;
mod crash;
mod crew;
mod documents;
mod exchange;
mod faults;
mod findings_of_use;
mod flags;
mod gates;
mod hostile;
mod jobs;
mod k9s;
mod kube_rs;
mod kubectl_next;
mod kubelet;
mod link;
mod lives;
mod mesh;
mod observe;
mod older;
mod presentation;
mod prometheus;
mod python;
mod replicas;
mod rolling;
mod samples;
mod serving;
mod settings;
mod snapshots;
mod streams;
mod swaps;
mod trace;
mod tracing;
mod transcript;
mod tunnel;
mod watch;
