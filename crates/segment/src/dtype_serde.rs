//! Serialisation of element types: number in compact formats, name in readable ones.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::DType;

impl Serialize for DType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.name())
        } else {
            // The order of declaration is part of compact formats.
            serializer.serialize_u8(*self as u8)
        }
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Name)
        } else {
            let number = u8::deserialize(deserializer)?;
            let known = DType::ALL.get(usize::from(number)).copied();
            known.ok_or_else(|| {
                D::Error::custom(format_args!("no element type has number {number}"))
            })
        }
    }
}

struct Name;

impl Visitor<'_> for Name {
    type Value = DType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an element type, such as \"int16\"")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<DType, E> {
        let known = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| E::custom(format_args!("no element type is called {name:?}")))
    }
}
