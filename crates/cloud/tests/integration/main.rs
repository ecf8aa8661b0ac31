//! One binary, to link once.

mod faulty;
mod pushes;
mod stores;
