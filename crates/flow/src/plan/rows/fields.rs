//! Names and types of row fields, part of the port type.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use isochrony_segment::DType;

pub(crate) const START: &str = "start";
pub(crate) const END: &str = "end";
pub(crate) const TIME: &str = "time";

static INTERNED: LazyLock<Mutex<Vec<Fields>>> = LazyLock::new(Mutex::default);

/// Interned fields: cheap to copy and compare. Never freed, so intern only the fields of plans.
#[derive(Clone, Copy)]
pub struct Fields(&'static SchemaRef);

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Fields {}

impl Fields {
    /// Item name of a list that is one complex number.
    pub const COMPLEX: &str = "re_im";

    /// Interns fields, in order.
    #[must_use]
    pub fn intern(fields: impl IntoIterator<Item = Field>) -> Self {
        Self::of(Schema::new(fields.into_iter().collect::<Vec<_>>()))
    }

    /// Interns the fields of an Arrow schema.
    #[must_use]
    pub fn of(schema: Schema) -> Self {
        // A panic under the lock leaves the list valid.
        let mut interned = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&fields) = interned.iter().find(|fields| **fields.0 == schema) {
            return fields;
        }
        let fields = Self(Box::leak(Box::new(Arc::new(schema))));
        interned.push(fields);
        fields
    }

    /// The fields as an Arrow schema.
    #[must_use]
    pub fn schema(self) -> &'static SchemaRef {
        self.0
    }

    /// Position and type of a field.
    #[must_use]
    pub fn find(self, name: &str) -> Option<(usize, &'static Field)> {
        self.0.column_with_name(name)
    }

    /// All names, for errors.
    #[must_use]
    pub fn names(self) -> String {
        let names: Vec<&str> = self.0.fields().iter().map(|f| f.name().as_str()).collect();
        names.join(", ")
    }

    /// Arrow type of a dtype.
    #[must_use]
    pub fn arrow_type(dtype: DType) -> DataType {
        let pair =
            |part| DataType::FixedSizeList(Arc::new(Field::new(Self::COMPLEX, part, false)), 2);
        match dtype {
            DType::Bool => DataType::Boolean,
            DType::I8 => DataType::Int8,
            DType::I16 => DataType::Int16,
            DType::I32 => DataType::Int32,
            DType::I64 => DataType::Int64,
            DType::U8 => DataType::UInt8,
            DType::U16 => DataType::UInt16,
            DType::U32 => DataType::UInt32,
            DType::F32 => DataType::Float32,
            DType::F64 => DataType::Float64,
            DType::C64 => pair(DataType::Float32),
            DType::C128 => pair(DataType::Float64),
        }
    }

    /// A field's dtype in expressions, ns since 1970 for civil time. None for lists.
    #[must_use]
    pub fn dtype(data: &DataType) -> Option<DType> {
        Some(match data {
            DataType::Boolean => DType::Bool,
            DataType::Int8 => DType::I8,
            DataType::Int16 => DType::I16,
            DataType::Int32 => DType::I32,
            DataType::Int64 | DataType::Timestamp(TimeUnit::Nanosecond, _) => DType::I64,
            DataType::UInt8 => DType::U8,
            DataType::UInt16 => DType::U16,
            DataType::UInt32 => DType::U32,
            DataType::Float32 => DType::F32,
            DataType::Float64 => DType::F64,
            _ => return None,
        })
    }

    /// Arrow type of civil times.
    #[must_use]
    pub fn civil() -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.0.fields().iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}", field.name())?;
            match (Self::dtype(field.data_type()), field.data_type()) {
                (_, DataType::Timestamp(..)) => write!(f, " time")?,
                (Some(dtype), _) => write!(f, " {dtype}")?,
                (None, DataType::FixedSizeList(part, _)) if part.name() == Self::COMPLEX => {
                    let single = *part.data_type() == DataType::Float32;
                    write!(f, " {}", if single { DType::C64 } else { DType::C128 })?;
                }
                (None, DataType::FixedSizeList(item, len)) => match Self::dtype(item.data_type()) {
                    Some(dtype) => write!(f, " {len} {dtype}")?,
                    None => write!(f, " list")?,
                },
                (None, other) => write!(f, " {other}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fields({self})")
    }
}
