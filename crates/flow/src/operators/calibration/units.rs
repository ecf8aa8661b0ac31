//! Parses units into dimension and size in the coherent unit.
//!
//! A unit is a product of names with powers: `m/s`, `m/s**2`, `m/s^2`, `m s-2`, `mV/Pa`, `µm/s`. A slash divides by the
//! one factor after it. Names are the SI's with its prefixes, and some of instruments. Unknown text is no unit, never
//! guessed.

/// Exponents of metre, kilogram, second, ampere, kelvin, mole, candela, radian, and counts.
pub(crate) type Dimension = [i32; 9];

/// `value_in_coherent_unit = value * factor + offset`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ParsedUnit {
    pub(crate) dimension: Dimension,
    pub(crate) factor: f64,
    pub(crate) offset: f64,
}

const fn dimension(m: i32, kg: i32, s: i32, a: i32, k: i32) -> Dimension {
    [m, kg, s, a, k, 0, 0, 0, 0]
}

const ANGLE: Dimension = [0, 0, 0, 0, 0, 0, 0, 1, 0];
const COUNTS: Dimension = [0, 0, 0, 0, 0, 0, 0, 0, 1];
const NONE: Dimension = [0; 9];

const PREFIXED: &[(&str, Dimension, f64)] = &[
    ("m", dimension(1, 0, 0, 0, 0), 1.0),
    ("g", dimension(0, 1, 0, 0, 0), 1e-3),
    ("s", dimension(0, 0, 1, 0, 0), 1.0),
    ("A", dimension(0, 0, 0, 1, 0), 1.0),
    ("K", dimension(0, 0, 0, 0, 1), 1.0),
    ("mol", [0, 0, 0, 0, 0, 1, 0, 0, 0], 1.0),
    ("cd", [0, 0, 0, 0, 0, 0, 1, 0, 0], 1.0),
    ("rad", ANGLE, 1.0),
    ("Hz", dimension(0, 0, -1, 0, 0), 1.0),
    ("N", dimension(1, 1, -2, 0, 0), 1.0),
    ("Pa", dimension(-1, 1, -2, 0, 0), 1.0),
    ("bar", dimension(-1, 1, -2, 0, 0), 1e5),
    ("J", dimension(2, 1, -2, 0, 0), 1.0),
    ("W", dimension(2, 1, -3, 0, 0), 1.0),
    ("C", dimension(0, 0, 1, 1, 0), 1.0),
    ("V", dimension(2, 1, -3, -1, 0), 1.0),
    ("F", dimension(-2, -1, 4, 2, 0), 1.0),
    ("Ohm", dimension(2, 1, -3, -2, 0), 1.0),
    ("ohm", dimension(2, 1, -3, -2, 0), 1.0),
    ("Ω", dimension(2, 1, -3, -2, 0), 1.0),
    ("S", dimension(-2, -1, 3, 2, 0), 1.0),
    ("Wb", dimension(2, 1, -2, -1, 0), 1.0),
    ("T", dimension(0, 1, -2, -1, 0), 1.0),
    ("H", dimension(2, 1, -2, -2, 0), 1.0),
    ("L", dimension(3, 0, 0, 0, 0), 1e-3),
    ("l", dimension(3, 0, 0, 0, 0), 1e-3),
];

/// Name, dimension, factor, and offset: the value of the unit's zero in the coherent unit, such as 273.15 for degC.
const UNPREFIXED: &[(&str, Dimension, f64, f64)] = &[
    ("min", dimension(0, 0, 1, 0, 0), 60.0, 0.0),
    ("h", dimension(0, 0, 1, 0, 0), 3600.0, 0.0),
    ("d", dimension(0, 0, 1, 0, 0), 86_400.0, 0.0),
    ("degC", dimension(0, 0, 0, 0, 1), 1.0, 273.15),
    ("°C", dimension(0, 0, 0, 0, 1), 1.0, 273.15),
    (
        "degF",
        dimension(0, 0, 0, 0, 1),
        5.0 / 9.0,
        459.67 * 5.0 / 9.0,
    ),
    (
        "°F",
        dimension(0, 0, 0, 0, 1),
        5.0 / 9.0,
        459.67 * 5.0 / 9.0,
    ),
    ("deg", ANGLE, std::f64::consts::PI / 180.0, 0.0),
    ("°", ANGLE, std::f64::consts::PI / 180.0, 0.0),
    ("rpm", dimension(0, 0, -1, 0, 0), 1.0 / 60.0, 0.0),
    ("atm", dimension(-1, 1, -2, 0, 0), 101_325.0, 0.0),
    (
        "psi",
        dimension(-1, 1, -2, 0, 0),
        6_894.757_293_168_361,
        0.0,
    ),
    ("mmHg", dimension(-1, 1, -2, 0, 0), 133.322_387_415, 0.0),
    ("mH2O", dimension(-1, 1, -2, 0, 0), 9_806.65, 0.0),
    ("g0", dimension(1, 0, -2, 0, 0), 9.806_65, 0.0),
    ("in", dimension(1, 0, 0, 0, 0), 0.0254, 0.0),
    ("ft", dimension(1, 0, 0, 0, 0), 0.3048, 0.0),
    ("%", NONE, 1e-2, 0.0),
    ("ppm", NONE, 1e-6, 0.0),
    ("1", NONE, 1.0, 0.0),
    ("count", COUNTS, 1.0, 0.0),
    ("counts", COUNTS, 1.0, 0.0),
];

const PREFIXES: &[(&str, f64)] = &[
    ("da", 1e1),
    ("f", 1e-15),
    ("p", 1e-12),
    ("n", 1e-9),
    ("u", 1e-6),
    ("µ", 1e-6),
    ("μ", 1e-6),
    ("m", 1e-3),
    ("c", 1e-2),
    ("d", 1e-1),
    ("h", 1e2),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
];

fn find_unit(name: &str) -> Option<ParsedUnit> {
    // Before prefixes are tried: "min" is not a milli-inch.
    if let Some(&(_, dimension, factor, offset)) = UNPREFIXED.iter().find(|known| known.0 == name) {
        return Some(ParsedUnit {
            dimension,
            factor,
            offset,
        });
    }
    let plain = |name: &str| PREFIXED.iter().find(|known| known.0 == name);
    let prefixed = || {
        PREFIXES.iter().find_map(|&(prefix, times)| {
            let &(_, dimension, factor) = plain(name.strip_prefix(prefix)?)?;
            Some((dimension, factor * times))
        })
    };
    let found = plain(name).map(|&(_, dimension, factor)| (dimension, factor));
    let (dimension, factor) = found.or_else(prefixed)?;
    Some(ParsedUnit {
        dimension,
        factor,
        offset: 0.0,
    })
}

/// None if any part is unknown.
pub(crate) fn parse_unit(text: &str) -> Option<ParsedUnit> {
    let text = text.trim().replace("**", "^");
    if let Some(one) = find_unit(&text) {
        return Some(one);
    }
    let mut product = ParsedUnit {
        dimension: NONE,
        factor: 1.0,
        offset: 0.0,
    };
    let mut divides = false;
    let spaced = text.replace('/', " / ").replace(['*', '·'], " ");
    let mut any = false;
    for word in spaced.split_whitespace() {
        if word == "/" {
            if divides {
                return None;
            }
            divides = true;
            continue;
        }
        let (name, power) = split_exponent(word)?;
        let one = find_unit(name).filter(|one| one.offset == 0.0)?;
        let power = if std::mem::take(&mut divides) {
            -power
        } else {
            power
        };
        product.factor *= one.factor.powi(power);
        for (sum, exponent) in product.dimension.iter_mut().zip(one.dimension) {
            *sum += exponent * power;
        }
        any = true;
    }
    (any && !divides).then_some(product)
}

/// Reads `s`, `s^2`, `s-2`, `s2`.
fn split_exponent(word: &str) -> Option<(&str, i32)> {
    if let Some((name, power)) = word.split_once('^') {
        let power = power.trim_matches(['(', ')']).parse().ok()?;
        return Some((name, power)).filter(|(_, power): &(&str, i32)| (-9..=9).contains(power));
    }
    if find_unit(word).is_some() {
        return Some((word, 1));
    }
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = name.strip_suffix('-').unwrap_or(name);
    let power: i32 = word[name.len()..].parse().ok()?;
    (-9..=9).contains(&power).then_some((name, power))
}

/// `to = from * gain + offset`; None if the dimensions differ.
pub(crate) fn conversion(from: &ParsedUnit, to: &ParsedUnit) -> Option<(f64, f64)> {
    (from.dimension == to.dimension).then(|| {
        let offset = (from.offset - to.offset) / to.factor;
        (from.factor / to.factor, offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_their_defined_sizes_however_they_are_written() {
        for (from, to, value, want) in [
            ("kPa", "Pa", 2.0, 2000.0),
            ("bar", "kPa", 1.0, 100.0),
            ("psi", "Pa", 1.0, 6_894.757_293_168),
            ("mH2O", "kPa", 10.0, 98.0665),
            ("m/s", "km/h", 10.0, 36.0),
            ("nm/s", "m s-1", 1.0, 1e-9),
            ("m/s**2", "g0", 9.80665, 1.0),
            ("m/s^2", "mm*s^-2", 1.0, 1000.0),
            ("µm/s", "um/s", 3.0, 3.0),
            ("degC", "K", 20.0, 293.15),
            ("°F", "degC", 212.0, 100.0),
            ("deg", "rad", 180.0, std::f64::consts::PI),
            ("rpm", "Hz", 600.0, 10.0),
            ("V", "W/A", 1.0, 1.0),
            ("N m", "J", 1.0, 1.0),
            ("C/s", "A", 1.0, 1.0),
            ("Ohm", "V/A", 1.0, 1.0),
            ("F V", "C", 1.0, 1.0),
            ("T m2", "Wb", 1.0, 1.0),
            ("L/min", "m3/h", 1000.0, 60.0),
            ("min", "s", 1.0, 60.0),
            ("%", "1", 5.0, 0.05),
        ] {
            let a = parse_unit(from).expect(from);
            let b = parse_unit(to).expect(to);
            let (gain, offset) = conversion(&a, &b).expect(from);
            let got = value * gain + offset;
            // A few roundings, of kelvins for degrees.
            assert!(
                (got - want).abs() <= 1e-12 * want.abs() + 1e-10 * offset.abs().min(1.0),
                "{from} {to}: {got}"
            );
        }
    }

    #[test]
    fn what_is_unknown_or_measures_something_else_is_nothing() {
        for text in [
            "",
            "furlong",
            "m//s",
            "m/",
            "degC/m",
            "m^x",
            "kmin",
            "Pam",
            "m^99",
            "counts/flurb",
            "mV/(Pa)",
        ] {
            assert_eq!(parse_unit(text), None, "{text}");
        }
        let parsed = |text| parse_unit(text).unwrap();
        for (a, b) in [
            ("m", "s"),
            ("m/s", "m/s2"),
            ("Hz", "rad/s"),
            ("counts", "V"),
            ("counts", "1"),
            ("deg", "1"),
        ] {
            assert_eq!(conversion(&parsed(a), &parsed(b)), None, "{a} {b}");
        }
    }
}
