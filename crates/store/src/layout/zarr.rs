//! `zarr.json` files, for programs that cannot read our tables and log.
//!
//! They are projections of committed state, written without a sync and rebuilt by recovery; read back only for
//! attributes and verification.

use isochrony_segment::DType;
use serde_json::{Map, Value, json};

use super::flat::Flat;
use super::table::Geometry;
use crate::meta::{ClockSettings, SignalMeta};
use crate::op::SignalId;
use crate::sample_format::SampleFormat;
use crate::version::FileVersion;

/// Version of the store format.
pub const FORMAT: u64 = 1;

/// Bytes of a metadata file.
#[must_use]
pub fn to_bytes(value: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// A group of attributes.
#[must_use]
pub fn group(attributes: Map<String, Value>) -> Value {
    json!({ "zarr_format": 3, "node_type": "group", "attributes": attributes })
}

/// The store's group; `user`: attributes to keep.
#[must_use]
pub fn store_group(uuid: &str, user: Map<String, Value>) -> Value {
    let mut attributes = Map::new();
    attributes.insert(
        "isochrony".into(),
        json!({ "kind": "store", "format": FORMAT, "uuid": uuid }),
    );
    attributes.extend(user.into_iter().filter(|(key, _)| key != "isochrony"));
    group(attributes)
}

/// All attributes of a group's `zarr.json`; `None` if unreadable.
#[must_use]
pub fn attributes_of(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(bytes).ok()? {
        Value::Object(mut fields) => match fields.remove("attributes") {
            None => Some(Map::new()),
            Some(Value::Object(attributes)) => Some(attributes),
            Some(_) => None,
        },
        _ => None,
    }
}

/// `tables`: those without arrays.
#[must_use]
pub fn signal_group(id: SignalId, meta: &SignalMeta, tables: Option<Value>) -> Value {
    let mut own = Map::new();
    own.insert("kind".into(), "signal".into());
    own.insert("format".into(), FORMAT.into());
    own.insert("id".into(), id.0.into());
    own.insert("dtype".into(), meta.format.name().into());
    own.insert("rate".into(), meta.rate.to_string().into());
    own.insert("unit".into(), meta.unit.clone().into());
    if let Some((scale, offset)) = meta.calibration {
        own.insert("scale".into(), float(scale));
        own.insert("offset".into(), float(offset));
    }
    own.insert("clock".into(), clock(&meta.clock));
    if let Some(tables) = tables {
        own.insert("tables".into(), tables);
    }
    let mut attributes = Map::new();
    attributes.insert("isochrony".into(), Value::Object(own));
    if let Ok(Value::Object(user)) = serde_json::from_str(&meta.attributes) {
        attributes.extend(user.into_iter().filter(|(key, _)| key != "isochrony"));
    }
    group(attributes)
}

fn clock(settings: &ClockSettings) -> Value {
    let mut clock = json!({
        "alpha": settings.alpha,
        "gap_slip_ns": settings.gap_slip_ns,
        "max_gap_ns": settings.max_gap_ns,
    });
    // Absent if not set, as in earlier versions.
    if let Some(rate) = settings.initial_rate {
        clock["initial_rate"] = rate.to_string().into();
    }
    clock
}

/// Flat `data` of `end` samples.
#[must_use]
pub fn data_array(meta: &SignalMeta, end: i64) -> Value {
    let fill = match meta.format.dtype() {
        _ if !meta.format.is_plain() => json!(0),
        DType::Bool => json!(false),
        DType::F32 | DType::F64 => json!(0.0),
        DType::C64 | DType::C128 => json!([0.0, 0.0]),
        _ => json!(0),
    };
    let flat = Flat::data(meta);
    let chunk = flat.chunk_bytes / meta.format.size() as u64;
    let end = end.max(0).cast_unsigned();
    let component = meta.format.component_size();
    let mut array = match meta.format {
        SampleFormat::Plain(dtype) => array(
            &[end],
            dtype.name(),
            component,
            &[chunk],
            flat.chunks,
            &["index"],
        ),
        SampleFormat::ComplexInt16 => {
            let name = DType::I16.name();
            let axes = ["index", "part"];
            let mut array = array(&[end, 2], name, component, &[chunk, 2], flat.chunks, &axes);
            array["chunk_key_encoding"]["configuration"]["separator"] = ".".into();
            array
        }
    };
    array["fill_value"] = fill;
    array
}

/// Identity in the metadata of a sealed `data`, unreadable without it.
#[must_use]
pub fn data_identity(id: SignalId, version: FileVersion) -> Value {
    json!({ "kind": "data", "signal": id.0, "version": format!("{:032x}", version.0) })
}

/// `crc` of `chunks` checksums.
#[must_use]
pub fn crc_array(chunks: u64) -> Value {
    let flat = Flat::side();
    array(
        &[chunks],
        "uint32",
        4,
        &[flat.chunk_bytes / 4],
        flat.chunks,
        &["chunk"],
    )
}

/// A table of int64 rows.
#[must_use]
pub fn table_array(name: &str, columns: u64, rows: u64, geometry: Geometry) -> Value {
    // xarray refuses several lengths of a dimension name.
    let [row, field] = match name {
        "gaps" => ["gap", "gap_field"],
        "runs" => ["run", "run_field"],
        "timebase/points" => ["point", "point_field"],
        "timebase/fit" => ["piece", "piece_field"],
        "timebase/corrections" => ["comparison", "comparison_field"],
        _ => ["event", "event_field"],
    };
    array(
        &[rows, columns],
        "int64",
        8,
        &[geometry.chunk_rows, columns],
        geometry.chunks,
        &[row, field],
    )
}

/// The text of a table.
#[must_use]
pub fn text_array(bytes: u64, geometry: Geometry) -> Value {
    array(
        &[bytes],
        "uint8",
        1,
        &[geometry.chunk_rows],
        geometry.chunks,
        &["byte"],
    )
}

/// `shape`: rows, and columns named `field`; in shards of `chunks` inner chunks.
#[must_use]
pub fn view_array(
    dtype: DType,
    field: &str,
    shape: [u64; 2],
    chunk: [u64; 2],
    chunks: u64,
) -> Value {
    let mut array = array(
        &shape,
        dtype.name(),
        dtype.component_size(),
        &chunk,
        chunks,
        &["bucket", field],
    );
    if dtype == DType::Bool {
        array["fill_value"] = json!(false);
    }
    array
}

/// Divided only in the first dimension. `chunk`: shape of the inner chunk.
fn array(
    shape: &[u64],
    data_type: &str,
    component_bytes: usize,
    chunk: &[u64],
    chunks: u64,
    dimensions: &[&str],
) -> Value {
    let mut shard = chunk.to_vec();
    shard[0] *= chunks;
    let bytes = if component_bytes > 1 {
        json!({ "name": "bytes", "configuration": { "endian": "little" } })
    } else {
        json!({ "name": "bytes" })
    };
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": shard } },
        "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
        "fill_value": 0,
        "codecs": [{
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": chunk,
                "codecs": [bytes],
                "index_codecs": [
                    { "name": "bytes", "configuration": { "endian": "little" } },
                    { "name": "crc32c" },
                ],
                "index_location": "start",
            },
        }],
        "attributes": {},
        "dimension_names": dimensions,
    })
}

/// Non-finite numbers as strings, like Zarr fill values.
fn float(x: f64) -> Value {
    serde_json::Number::from_f64(x).map_or_else(|| Value::from(x.to_string()), Value::Number)
}
