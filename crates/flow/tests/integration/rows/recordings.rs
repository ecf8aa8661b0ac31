use super::*;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) x: f64,
}

/// Rows in memory, in blocks of given sizes. The clock, if any, is linear.
pub(crate) struct RowRecording {
    pub(crate) rows: Vec<Row>,
    pub(crate) blocks: Vec<usize>,
    pub(crate) stream: StreamId,
    pub(crate) clock: Option<Arc<Linear>>,
}

/// Sample `i` is at `zero + i * period` ns; odd indices beyond `lost` have no time.
pub(crate) struct Linear {
    pub(crate) zero: i64,
    pub(crate) period: i64,
    pub(crate) lost: i64,
}

impl Clock for Linear {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        for (out, &index) in out.iter_mut().zip(indices) {
            *out = match index > self.lost {
                true => i64::MIN,
                false => self.zero + index * self.period,
            };
        }
        Ok(())
    }
}

pub(crate) fn fields() -> Fields {
    Fields::intern([
        Field::new("start", DataType::Int64, false),
        Field::new("end", DataType::Int64, false),
        Field::new("x", DataType::Float64, false),
    ])
}

impl Recording for RowRecording {
    fn port(&self) -> PortType {
        PortType::Rows {
            fields: fields(),
            stream: Some(self.stream),
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let mut rows = &self.rows[..];
        let mut items = Vec::new();
        for block in self
            .blocks
            .iter()
            .copied()
            .chain(std::iter::repeat(usize::MAX))
        {
            let (now, rest) = rows.split_at(block.max(1).min(rows.len()));
            rows = rest;
            let (Some(first), Some(last)) = (now.first(), now.last()) else {
                break;
            };
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(
                    now.iter().map(|row| row.start),
                )),
                Arc::new(Int64Array::from_iter_values(now.iter().map(|row| row.end))),
                Arc::new(Float64Array::from_iter_values(now.iter().map(|row| row.x))),
            ];
            let batch = RecordBatch::try_new(fields().schema().clone(), columns).unwrap();
            let next = rest.first().map_or(last.end, |row| row.start);
            items.push(SourceEvent::Item(
                Rows::new(batch, first.start..last.end, next).into(),
            ));
        }
        items.reverse();
        Ok(Box::new(Script(items)))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }
}

pub(crate) struct Script(pub(crate) Vec<SourceEvent>);

impl Source for Script {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        Ok(self.0.pop().unwrap_or(SourceEvent::End))
    }
}

pub(crate) fn given(rows: &[Row], blocks: &[usize], stream: StreamId) -> Plan {
    Plan::scan(RowRecording {
        rows: rows.to_vec(),
        blocks: blocks.to_vec(),
        stream,
        clock: None,
    })
}

pub(crate) struct ClockedSegments(pub(crate) Segments, pub(crate) Arc<Linear>);

impl Recording for ClockedSegments {
    fn port(&self) -> PortType {
        self.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        self.0.open(range, segment)
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.1.clone())
    }
}
