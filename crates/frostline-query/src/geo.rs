//! Points on the earth, how documents and requests write them, and what is computed of them.
//!
//! - A point is its latitude and longitude in degrees, as they are written: nothing is rounded.
//! - A value that is no point, or is one beyond the poles or 180 degrees, has none.
//! - Distances are along great circles of a sphere (haversine), whose radius is the mean radius of the earth that Lucene
//!   has.
//! - Cells of geohashes and of tiles are found as Lucene and Elasticsearch find them: geohashes in steps of 2^-32 of the
//!   earth's height and width, tiles in the Web Mercator projection.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use frostline_split::ValueType;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod shape;

pub(crate) use shape::{Relation, Shape};

/// The mean radius of the earth in metres.
const EARTH_RADIUS_M: f64 = 6_371_008.771_4;
/// The digits of geohashes.
const GEOHASH_DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// Beyond these latitudes there are no tiles of their own: the map is a square.
const TILE_ZOOM_MAX: u8 = 29;
const GEOHASH_LENGTH_MAX: u8 = 12;

/// A point, in degrees. Equal ones are written equally.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Point {
    pub(crate) lat: f64,
    pub(crate) lon: f64,
}

/// An area between two meridians and two parallels, all of which are in it. Where the western one is east of the other,
/// it crosses the date line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Area {
    pub(crate) north_west: Point,
    pub(crate) south_east: Point,
}

/// The values that the points of a field are taken as.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum PointsAs {
    /// The points themselves, as texts that [`Point::of_text`] reads.
    Points,
    /// The distances from each of these points.
    Distances { from: Vec<Point>, unit: Unit },
    /// The cells of geohashes of this length that meet an area, as texts.
    Geohashes { length: u8, within: Option<Area> },
    /// The tiles of this zoom that meet an area, as the numbers of [`Tile::number`].
    Tiles { zoom: u8, within: Option<Area> },
}

/// A unit of length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Unit {
    Millimetre,
    Centimetre,
    Metre,
    Kilometre,
    Inch,
    Foot,
    Yard,
    Mile,
    NauticalMile,
}

/// A tile of the map at one zoom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    zoom: u8,
    x: u32,
    y: u32,
}

impl Point {
    /// None beyond the poles or 180 degrees.
    pub(crate) fn new(lat: f64, lon: f64) -> Option<Point> {
        (lat.abs() <= 90.0 && lon.abs() <= 180.0).then_some(Point { lat, lon })
    }

    /// The point that a text writes: `lat,lon`, `POINT (lon lat)`, or a geohash, whose south-western corner it is.
    pub(crate) fn of_text(text: &str) -> Option<Point> {
        let text = text.trim();
        if let Some(inner) = shape::wkt_body(text, "POINT") {
            let numbers: Vec<f64> =
                inner.split_whitespace().map(|number| number.parse().ok()).collect::<Option<_>>()?;
            return matches!(numbers.len(), 2 | 3).then(|| Point::new(numbers[1], numbers[0]))?;
        }
        let mut parts = text.split(',');
        let (Some(lat), Some(lon)) = (parts.next(), parts.next()) else {
            let cell = Area::of_geohash(text)?;
            return Some(Point { lat: cell.south_east.lat, lon: cell.north_west.lon });
        };
        // A third number is a height.
        let height = parts.next().map(|height| height.trim().parse::<f64>());
        if height.is_some_and(|height| height.is_err()) || parts.next().is_some() {
            return None;
        }
        Point::new(lat.trim().parse().ok()?, lon.trim().parse().ok()?)
    }

    /// The points of a value of a document, or of a request: in any of the ways in which they are written, or a list of
    /// such.
    pub(crate) fn all_of(value: &Value) -> Vec<Point> {
        let mut all = Vec::new();
        Point::add_all_of(value, &mut all);
        all
    }

    fn add_all_of(value: &Value, all: &mut Vec<Point>) {
        match value {
            Value::Array(items) if items.first().is_some_and(Value::is_number) => {
                all.extend(Point::of_numbers(items));
            }
            Value::Array(items) => items.iter().for_each(|item| Point::add_all_of(item, all)),
            one => all.extend(Point::of(one)),
        }
    }

    /// The one point that a value is.
    pub(crate) fn of(value: &Value) -> Option<Point> {
        let degrees = |value: &Value| match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match value {
            Value::String(text) => Point::of_text(text),
            Value::Array(numbers) => Point::of_numbers(numbers),
            Value::Object(members) => match (members.get("lat"), members.get("lon")) {
                (Some(lat), Some(lon)) => Point::new(degrees(lat)?, degrees(lon)?),
                (None, None) => match members.get("geohash") {
                    Some(hash) => Point::of_text(hash.as_str()?),
                    None => {
                        let is_point = members.get("type")?.as_str()?.eq_ignore_ascii_case("point");
                        is_point.then(|| Point::of_numbers(members.get("coordinates")?.as_array()?))?
                    }
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Longitude and latitude, and perhaps a height.
    fn of_numbers(numbers: &[Value]) -> Option<Point> {
        if !matches!(numbers.len(), 2 | 3) {
            return None;
        }
        let numbers: Vec<f64> = numbers.iter().map(Value::as_f64).collect::<Option<_>>()?;
        Point::new(numbers[1], numbers[0])
    }

    /// As [`Point::of_text`] reads it.
    pub(crate) fn text(self) -> String {
        format!("{},{}", self.lat, self.lon)
    }

    /// Along a great circle.
    pub(crate) fn metres_to(self, other: Point) -> f64 {
        let (lat, other_lat) = (self.lat.to_radians(), other.lat.to_radians());
        let half = |a: f64, b: f64| ((a - b) / 2.0).sin().powi(2);
        let lon = half(self.lon.to_radians(), other.lon.to_radians());
        let square = half(lat, other_lat) + lat.cos() * other_lat.cos() * lon;
        2.0 * EARTH_RADIUS_M * square.sqrt().min(1.0).asin()
    }

    /// The latitude and the longitude in steps of 2^-32 of all of them, from the south pole and the date line on.
    fn steps(self) -> (u32, u32) {
        let steps = |degrees: f64, all: f64| {
            let step = (degrees / (all / 4_294_967_296.0)).floor() as i64 + (1 << 31);
            step.clamp(0, i64::from(u32::MAX)) as u32
        };
        (steps(self.lat, 180.0), steps(self.lon, 360.0))
    }

    /// The geohash of so many digits of the cell that it is in.
    pub(crate) fn geohash(self, length: u8) -> String {
        let (lat, lon) = self.steps();
        let bit = |number: u32| {
            let of = if number.is_multiple_of(2) { lon } else { lat };
            of >> (31 - number / 2) & 1
        };
        let digits = (0..u32::from(length.min(GEOHASH_LENGTH_MAX))).map(|digit| {
            let value = (digit * 5..digit * 5 + 5).fold(0, |value, number| value << 1 | bit(number));
            char::from(GEOHASH_DIGITS[value as usize])
        });
        digits.collect()
    }

    fn key(self) -> (u64, u64) {
        // The order of the bits is that of positive numbers alone; any order will do.
        (self.lat.to_bits(), self.lon.to_bits())
    }
}

impl PartialEq for Point {
    fn eq(&self, other: &Point) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Point {}

impl PartialOrd for Point {
    fn partial_cmp(&self, other: &Point) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Point {
    fn cmp(&self, other: &Point) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for Point {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Area {
    pub(crate) fn new(north: f64, west: f64, south: f64, east: f64) -> Option<Area> {
        let area = Area { north_west: Point::new(north, west)?, south_east: Point::new(south, east)? };
        (south <= north).then_some(area)
    }

    /// The cell of a geohash, of at most 12 digits.
    pub(crate) fn of_geohash(hash: &str) -> Option<Area> {
        if hash.is_empty() || hash.len() > usize::from(GEOHASH_LENGTH_MAX) {
            return None;
        }
        let (mut lat, mut lon) = ((0u64, 0i32), (0u64, 0i32));
        let mut is_lon = true;
        for digit in hash.bytes() {
            let value = GEOHASH_DIGITS.iter().position(|known| *known == digit.to_ascii_lowercase())?;
            for bit in (0..5).rev() {
                let of = if is_lon { &mut lon } else { &mut lat };
                *of = (of.0 << 1 | (value as u64 >> bit & 1), of.1 + 1);
                is_lon = !is_lon;
            }
        }
        let edges = |(step, bits): (u64, i32), all: f64| {
            let width = all / f64::powi(2.0, bits);
            (step as f64 * width - all / 2.0, (step + 1) as f64 * width - all / 2.0)
        };
        let ((south, north), (west, east)) = (edges(lat, 180.0), edges(lon, 360.0));
        Area::new(north, west, south, east)
    }

    pub(crate) fn contains(&self, point: Point) -> bool {
        let has_lat = self.south_east.lat <= point.lat && point.lat <= self.north_west.lat;
        let has_lon = |(west, east): (f64, f64)| west <= point.lon && point.lon <= east;
        has_lat && (self.longitudes().any(has_lon) || self.is_at_date_line(point.lon))
    }

    /// The date line has two longitudes.
    fn is_at_date_line(&self, lon: f64) -> bool {
        lon.abs() == 180.0 && self.longitudes().any(|(west, east)| west == -180.0 || east == 180.0)
    }

    /// Whether some point is in both.
    fn meets(&self, other: &Area) -> bool {
        let is_apart =
            self.south_east.lat > other.north_west.lat || other.south_east.lat > self.north_west.lat;
        let meet = |(west, east): (f64, f64)| {
            other.longitudes().any(|(other_west, other_east)| west <= other_east && other_west <= east)
        };
        !is_apart && self.longitudes().any(meet)
    }

    /// Its longitudes, from west to east.
    pub(crate) fn longitudes(&self) -> impl Iterator<Item = (f64, f64)> + use<> {
        let (west, east) = (self.north_west.lon, self.south_east.lon);
        let (first, second) =
            if west <= east { ((west, east), None) } else { ((west, 180.0), Some((-180.0, east))) };
        std::iter::once(first).chain(second)
    }
}

impl Unit {
    /// By its names in requests.
    pub(crate) fn of_name(name: &str) -> Option<Unit> {
        Some(match name {
            "mm" | "millimeters" => Unit::Millimetre,
            "cm" | "centimeters" => Unit::Centimetre,
            "m" | "meters" => Unit::Metre,
            "km" | "kilometers" => Unit::Kilometre,
            "in" | "inch" => Unit::Inch,
            "ft" | "feet" => Unit::Foot,
            "yd" | "yards" => Unit::Yard,
            "mi" | "miles" => Unit::Mile,
            "NM" | "nmi" | "nauticalmiles" => Unit::NauticalMile,
            _ => return None,
        })
    }

    pub(crate) fn metres(self) -> f64 {
        match self {
            Unit::Millimetre => 0.001,
            Unit::Centimetre => 0.01,
            Unit::Metre => 1.0,
            Unit::Kilometre => 1_000.0,
            Unit::Inch => 0.0254,
            Unit::Foot => 0.3048,
            Unit::Yard => 0.9144,
            Unit::Mile => 1_609.344,
            Unit::NauticalMile => 1_852.0,
        }
    }

    /// A length such as `12km` in metres; without a unit it is in `unit`.
    pub(crate) fn length(text: &str, unit: Unit) -> Option<f64> {
        let text = text.trim();
        // The `e` of an exponent belongs to the number.
        let end =
            text.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E')).unwrap_or(text.len());
        let (number, name) = text.split_at(end);
        let unit = if name.is_empty() { unit } else { Unit::of_name(name)? };
        number
            .trim()
            .parse()
            .ok()
            .map(|number: f64| number * unit.metres())
            .filter(|metres| metres.is_finite())
    }
}

impl Tile {
    /// The tile that a point is in. What is beyond the square of the map is in its tiles at the edge.
    fn of(point: Point, zoom: u8) -> Tile {
        let count = f64::powi(2.0, i32::from(zoom));
        let last = (1u32 << zoom) - 1;
        let x = ((point.lon + 180.0) / 360.0 * count).floor();
        let sine = point.lat.to_radians().sin();
        let y = ((0.5 - ((1.0 + sine) / (1.0 - sine)).ln() / (4.0 * std::f64::consts::PI)) * count).floor();
        // A cast saturates at the ends.
        Tile { zoom, x: (x as u32).min(last), y: (y as u32).min(last) }
    }

    /// Ordered by column, then row.
    fn number(self) -> i64 {
        i64::from(self.zoom) << 58 | i64::from(self.x) << 29 | i64::from(self.y)
    }

    pub(crate) fn of_number(number: i64) -> Tile {
        let low = (1 << 29) - 1;
        Tile { zoom: (number >> 58 & 0x1f) as u8, x: (number >> 29 & low) as u32, y: (number & low) as u32 }
    }

    /// As it is shown: zoom, column and row.
    pub(crate) fn text(self) -> String {
        format!("{}/{}/{}", self.zoom, self.x, self.y)
    }

    /// The number of the tile that a text names.
    pub(crate) fn number_of_text(text: &str) -> Option<i64> {
        let parts: Vec<u32> = text.split('/').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [zoom, x, y] = parts.as_slice() else { return None };
        let zoom = u8::try_from(*zoom).ok().filter(|zoom| *zoom <= TILE_ZOOM_MAX)?;
        (x >> zoom == 0 && y >> zoom == 0).then(|| Tile { zoom, x: *x, y: *y }.number())
    }

    fn area(self) -> Option<Area> {
        let count = f64::powi(2.0, i32::from(self.zoom));
        let lon = |x: u32| (f64::from(x) / count * 360.0 - 180.0).clamp(-180.0, 180.0);
        let lat = |y: u32| {
            let from_middle = std::f64::consts::PI * (1.0 - 2.0 * f64::from(y) / count);
            from_middle.sinh().atan().to_degrees()
        };
        Area::new(lat(self.y), lon(self.x), lat(self.y + 1), lon(self.x + 1))
    }
}

impl PointsAs {
    /// Geohashes of this length; none where there are no such.
    pub(crate) fn geohashes(length: usize, within: Option<Area>) -> Option<PointsAs> {
        let length = u8::try_from(length).ok().filter(|length| (1..=GEOHASH_LENGTH_MAX).contains(length))?;
        Some(PointsAs::Geohashes { length, within })
    }

    /// Tiles of this zoom; none where there are no such.
    pub(crate) fn tiles(zoom: usize, within: Option<Area>) -> Option<PointsAs> {
        let zoom = u8::try_from(zoom).ok().filter(|zoom| *zoom <= TILE_ZOOM_MAX)?;
        Some(PointsAs::Tiles { zoom, within })
    }

    /// The type of the values.
    pub(crate) fn value_type(&self) -> ValueType {
        match self {
            PointsAs::Points | PointsAs::Geohashes { .. } => ValueType::Text,
            PointsAs::Distances { .. } => ValueType::Double,
            PointsAs::Tiles { .. } => ValueType::Long,
        }
    }
}

/// The geohash of a point's cell, if that meets the area.
pub(crate) fn geohash_within(point: Point, length: u8, within: Option<&Area>) -> Option<String> {
    let hash = point.geohash(length);
    let meets = |area: &Area| Area::of_geohash(&hash).is_some_and(|cell| cell.meets(area));
    within.is_none_or(meets).then_some(hash)
}

/// The number of a point's tile, if that meets the area.
pub(crate) fn tile_within(point: Point, zoom: u8, within: Option<&Area>) -> Option<i64> {
    let tile = Tile::of(point, zoom.min(TILE_ZOOM_MAX));
    let meets = |area: &Area| tile.area().is_some_and(|cell| cell.meets(area));
    within.is_none_or(meets).then(|| tile.number())
}

#[cfg(test)]
mod tests;
