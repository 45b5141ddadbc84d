//! Tests of the API vocabulary against general laws and against upstream's libraries.

#![cfg(test)]

mod properties;
mod status;
mod upstream;
mod work;
