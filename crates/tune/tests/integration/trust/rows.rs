//! Rows stored by `tools/train_trust.py`.

use isochrony_tune::trust::LinkFeatures;

pub(crate) struct Row {
    pub(crate) features: LinkFeatures,
    pub(crate) more: Vec<(String, f64)>,
}

impl Row {
    pub(crate) fn get(&self, name: &str) -> f64 {
        let found = self.more.iter().find(|(column, _)| column == name);
        found.unwrap_or_else(|| panic!("no column {name}")).1
    }
}

/// Links of held-out families with the tool's scores.
pub(crate) fn scored() -> Vec<Row> {
    parse(include_str!("scored_rows.csv"))
}

/// Links of held-out families with the truth of each model.
pub(crate) fn held_out() -> Vec<Row> {
    parse(include_str!("held_out_rows.csv"))
}

fn parse(text: &str) -> Vec<Row> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let values: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(values.len(), names.len());
        let get = |name: &str| values[names.iter().position(|&column| column == name).unwrap()];
        let features = LinkFeatures {
            items: get("items") as u64,
            capacity: get("capacity") as usize,
            interarrival_s: get("interarrival_s"),
            interarrival_cv: get("interarrival_cv"),
            service_s: get("service_s"),
            service_cv: get("service_cv"),
            writer_wait_share: get("writer_wait_share"),
            reader_wait_share: get("reader_wait_share"),
            reader_output_wait_share: get("reader_output_wait_share"),
            occupancy: std::array::from_fn(|part| get(&format!("occupancy_{part}")) as u64),
        };
        let columns = names.iter().map(|name| name.to_string()).zip(values);
        Row {
            features,
            more: columns.skip(18).collect(),
        }
    };
    lines.map(row).collect()
}
