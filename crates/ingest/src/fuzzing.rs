//! What the fuzz targets call; not part of the public face.

use crate::Layout;

/// Reads the input as a template, a newline and a path: parsing, printing and parsing again gives the same layout, and
/// no path makes matching panic or name a signal that leads elsewhere.
pub fn layout(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (template, path) = text.split_once('\n').unwrap_or((text, text));
    let Ok(layout) = template.parse::<Layout>() else {
        return;
    };
    let printed = layout.to_string();
    assert_eq!(
        printed.parse::<Layout>().ok().as_ref(),
        Some(&layout),
        "{template:?} printed as {printed:?}"
    );
    if let Ok(found) = layout.read(path) {
        assert!(
            found
                .signal
                .split('/')
                .all(|part| !matches!(part, "." | "..")),
            "{found:?}"
        );
        assert!(
            found.stamp.is_none_or(|stamp| stamp.resolution_ns > 0),
            "{found:?}"
        );
    }
}
