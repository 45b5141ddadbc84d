//! The API's words against laws and upstream's libraries.

#![cfg(test)]

mod properties;
mod status;
mod upstream;
mod work;
