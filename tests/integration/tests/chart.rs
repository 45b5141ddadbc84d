//! The chart `helm/oarlock`: what it renders in each mode, which values it refuses, what API servers say to it, and how a release lives.

mod helm;
mod readme;
mod refused;
mod release;
mod rendered;
mod rules;
mod secrets;
mod tunnel;
mod upstream;
mod validated;
