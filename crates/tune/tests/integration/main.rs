//! One binary, to link once.

mod cluster;
mod controller;
mod controller_default;
mod controller_in_simulator;
mod controller_load;
mod controller_model;
mod flow;
mod formula_plan;
mod noise_levy;
mod noise_models;
mod queue;
mod queueing;
mod service_rate;
mod service_rate_search;
mod simulator;
mod trust;
