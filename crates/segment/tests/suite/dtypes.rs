//! Notations of element types.

use isochrony_segment::{Bool8, ByteOrder, DType, Sample, SegmentError, dispatch};

#[test]
fn numpy_spellings_with_their_byte_order() {
    use ByteOrder::{Big, Little};
    const NATIVE: ByteOrder = ByteOrder::NATIVE;
    for (text, dtype, order) in [
        ("<i2", DType::I16, Little),
        (">i2", DType::I16, Big),
        ("=i2", DType::I16, NATIVE),
        ("i2", DType::I16, NATIVE),
        ("int16", DType::I16, NATIVE),
        (">int16", DType::I16, Big),
        ("!h", DType::I16, Big),
        ("i8", DType::I64, NATIVE),
        ("q", DType::I64, NATIVE),
        ("u1", DType::U8, NATIVE),
        ("|u1", DType::U8, NATIVE),
        (">u1", DType::U8, NATIVE),
        ("|b1", DType::Bool, NATIVE),
        ("?", DType::Bool, NATIVE),
        ("bool", DType::Bool, NATIVE),
        ("b", DType::I8, NATIVE),
        ("B", DType::U8, NATIVE),
        ("<u2", DType::U16, Little),
        (">u4", DType::U32, Big),
        ("I", DType::U32, NATIVE),
        ("f4", DType::F32, NATIVE),
        ("float32", DType::F32, NATIVE),
        (">f8", DType::F64, Big),
        ("double", DType::F64, NATIVE),
        ("<c8", DType::C64, Little),
        ("Zf", DType::C64, NATIVE),
        ("complex128", DType::C128, NATIVE),
        (" int32 ", DType::I32, NATIVE),
    ] {
        assert_eq!(DType::parse(text), Ok((dtype, order)), "{text}");
    }
}

#[test]
fn refuses_types_that_signals_cannot_have() {
    for text in ["u8", "uint64", "<u8", "float16", "c32", "datetime64"] {
        let error = DType::parse(text).unwrap_err();
        assert_eq!(error, SegmentError::UnsupportedDType { text: text.into() });
    }
    for text in ["", "<", "i16", "f32", "c64", "int", "i2 ", "é"] {
        match (text, DType::parse(text)) {
            // A Python int and surrounding blanks are valid.
            ("int" | "i2 ", result) => assert!(result.is_ok()),
            (_, result) => assert_eq!(result.unwrap_err().code(), "unknown_dtype", "{text}"),
        }
    }
}

#[test]
fn every_type_prints_what_it_parses() {
    for dtype in DType::ALL {
        assert_eq!(dtype.name().parse(), Ok(dtype));
        assert_eq!(dtype.to_string(), dtype.name());
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let (parsed, parsed_order) = DType::parse(dtype.numpy_str(order)).unwrap();
            assert_eq!(parsed, dtype);
            assert!(parsed_order == order || dtype.component_size() == 1);
        }
    }
}

#[test]
fn sizes_agree_with_the_rust_types() {
    for dtype in DType::ALL {
        dispatch!(dtype, T => {
            assert_eq!(T::DTYPE, dtype);
            assert_eq!(size_of::<T>(), dtype.size());
            assert_eq!(align_of::<T>(), dtype.align());
        });
        let parts = if dtype.is_complex() { 2 } else { 1 };
        assert_eq!(dtype.component_size() * parts, dtype.size());
    }
}

#[test]
fn any_byte_is_a_valid_bool() {
    let bytes = [0u8, 1, 2, 255];
    let bools: &[Bool8] = bytemuck::cast_slice(&bytes);
    let truth: Vec<bool> = bools.iter().map(|b| b.get()).collect();
    assert_eq!(truth, [false, true, true, true]);
    assert_eq!(bools[1], bools[3]);
    assert_eq!(bools[3].to_physical(), 1.0);
}
