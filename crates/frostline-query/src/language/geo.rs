//! Queries for the points of a field, and the order of their distances.

use frostline_split::{FieldType, Mapping};
use serde_json::{Map, Value};

use super::Context;
use super::json::{self, At, Object};
use crate::Result;
use crate::filter::{FieldRef, Filter};
use crate::geo::{Area, Point, PointsAs, Relation, Shape, Unit};

/// The queries that are read here.
pub(super) const QUERIES: [&str; 4] = ["geo_bounding_box", "geo_distance", "geo_polygon", "geo_shape"];

/// The queries and options that say nothing which changes an answer: points beyond the poles are refused in a request and
/// are none in a document, and distances are always along great circles.
const IGNORED: [&str; 7] =
    ["boost", "_name", "ignore_unmapped", "validation_method", "coerce", "ignore_malformed", "distance_type"];

/// Reads a query of [`QUERIES`].
pub(super) fn parse(kind: &str, body: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Filter> {
    let own: &[&str] = match kind {
        "geo_distance" => &["distance", "unit"],
        "geo_bounding_box" => &["type"],
        _ => &[],
    };
    let (name, value, options) = named(body, at, own)?;
    let field = points_of(name, PointsAs::Points, at, context)?;
    let at_field = at.key(name);
    let (shape, relation) = match kind {
        "geo_bounding_box" => (Shape::Area(area(value, &at_field)?), Relation::Intersects),
        "geo_distance" => {
            let unit = unit_or_metres(options.get("unit"), &at.key("unit"))?;
            let given = options.get("distance").ok_or_else(|| at.invalid("[distance] is missing"))?;
            let metres = length(given, unit, &at.key("distance"))?;
            (Shape::Circle { centre: point(value, &at_field)?, metres }, Relation::Intersects)
        }
        "geo_polygon" => {
            let mut options = Object::new(value, &at_field)?;
            let given = options.take("points").ok_or_else(|| at_field.invalid("[points] is missing"))?;
            options.finish()?;
            (polygon(vec![points(given, &at_field.key("points"))?], &at_field)?, Relation::Intersects)
        }
        _ => shape_and_relation(value, &at_field)?,
    };
    Ok(Filter::Points { field, shape, relation })
}

/// What `_geo_distance` sorts by: the distances, and its `order` and `mode`.
pub(super) fn distances(
    how: &Value,
    at: &At<'_>,
    context: &Context<'_>,
) -> Result<(FieldRef, Map<String, Value>)> {
    let (name, value, mut options) = named(how, at, &["order", "mode", "unit", "nested", "nested_path"])?;
    options.remove("nested_path");
    if options.remove("nested").is_some_and(|nested| nested.get("filter").is_some()) {
        return Err(at.unsupported("filter", "a document is sorted by the values of all objects at the path"));
    }
    let from = points(value, &at.key(name))?;
    let unit = unit_or_metres(options.remove("unit").as_ref(), &at.key("unit"))?;
    Ok((points_of(name, PointsAs::Distances { from, unit }, at, context)?, options))
}

/// The points of a field that is not declared to have anything else.
fn points_of(name: &str, of: PointsAs, at: &At<'_>, context: &Context<'_>) -> Result<FieldRef> {
    check_type(context.mapping, name).map_err(|ty| {
        at.invalid(format_args!("the field [{name}] is declared as [{ty}], which has no points"))
    })?;
    Ok(FieldRef::points(&[context.mapping], name, of))
}

/// The name of the type of a field that is declared to have values which are never points. What values there are by now says
/// nothing: two numbers may be a point.
pub(crate) fn check_type(mapping: &Mapping, name: &str) -> std::result::Result<(), &'static str> {
    let is_learned = mapping.field(name).is_some_and(|field| field.ty().is_none());
    match mapping.type_of(name).filter(|_| !is_learned) {
        Some(ty) if ty.value_type().is_some() && !is_text(ty) => Err(ty.name()),
        _ => Ok(()),
    }
}

fn is_text(ty: FieldType) -> bool {
    ty.value_type() == FieldType::Keyword.value_type()
}

/// The one key of a body that is the name of a field, and the options beside it.
fn named<'a>(body: &'a Value, at: &At<'_>, own: &[&str]) -> Result<(&'a str, &'a Value, Map<String, Value>)> {
    let map = body.as_object();
    let map =
        map.ok_or_else(|| at.invalid(format_args!("expected an object, found {}", json::kind(body))))?;
    let (mut found, mut options) = (None, Map::new());
    for (key, value) in map {
        if own.contains(&key.as_str()) {
            if !value.is_null() {
                options.insert(key.clone(), value.clone());
            }
        } else if !IGNORED.contains(&key.as_str())
            && let Some((first, _)) = found.replace((key.as_str(), value))
        {
            return Err(at.invalid(format_args!("expected one field, found [{first}] and [{key}]")));
        }
    }
    let (name, value) = found.ok_or_else(|| at.invalid("a field is missing"))?;
    Ok((name, value, options))
}

fn unit(value: &Value, at: &At<'_>) -> Result<Unit> {
    let name = json::string(value, at)?;
    Unit::of_name(name)
        .ok_or_else(|| at.invalid(format_args!("[{name}] is no unit of length such as m, km or mi")))
}

/// A unit by its name; metres without one.
pub(crate) fn unit_or_metres(value: Option<&Value>, at: &At<'_>) -> Result<Unit> {
    value.map_or(Ok(Unit::Metre), |value| unit(value, at))
}

fn length(value: &Value, unit: Unit, at: &At<'_>) -> Result<f64> {
    let text = json::scalar_text(value, at)?;
    Unit::length(&text, unit)
        .filter(|metres| *metres >= 0.0)
        .ok_or_else(|| at.invalid(format_args!("[{text}] is no distance such as 200m or 12km")))
}

/// One point, in any of the ways in which they are written.
pub(crate) fn point(value: &Value, at: &At<'_>) -> Result<Point> {
    Point::of(value).ok_or_else(|| {
        at.invalid(format_args!(
            "{value} is no point: give [lat] from -90 to 90 and [lon] from -180 to 180, an array of longitude and \
             latitude, a text \"lat,lon\", a geohash or \"POINT (lon lat)\""
        ))
    })
}

/// Several points, or one.
fn points(value: &Value, at: &At<'_>) -> Result<Vec<Point>> {
    match value {
        Value::Array(items) if !items.first().is_some_and(Value::is_number) && !items.is_empty() => {
            items.iter().enumerate().map(|(number, item)| point(item, &at.index(number))).collect()
        }
        one => Ok(vec![point(one, at)?]),
    }
}

/// An area between corners or sides.
pub(crate) fn area(value: &Value, at: &At<'_>) -> Result<Area> {
    let mut object = Object::new(value, at)?;
    if let Some(text) = object.string("wkt")? {
        object.finish()?;
        return match Shape::of_wkt(text) {
            Some(Ok(Shape::Area(area))) => Ok(area),
            _ => Err(at.invalid(format_args!("[{text}] is no BBOX (west, east, north, south)"))),
        };
    }
    let corner = |value: Option<&Value>, at: &At<'_>, is_north: bool, is_west: bool| {
        value.map(|value| self::corner(value, at, is_north, is_west)).transpose()
    };
    let north_west = corner(object.take("top_left"), &at.key("top_left"), true, true)?;
    let north_east = corner(object.take("top_right"), &at.key("top_right"), true, false)?;
    let south_west = corner(object.take("bottom_left"), &at.key("bottom_left"), false, true)?;
    let south_east = corner(object.take("bottom_right"), &at.key("bottom_right"), false, false)?;
    let [top, left, bottom, right] =
        [object.number("top")?, object.number("left")?, object.number("bottom")?, object.number("right")?];
    object.finish()?;
    let of = |corners: [Option<Point>; 2], of: fn(Point) -> f64| corners.into_iter().flatten().next().map(of);
    let north = of([north_west, north_east], |point| point.lat).or(top);
    let south = of([south_west, south_east], |point| point.lat).or(bottom);
    let west = of([north_west, south_west], |point| point.lon).or(left);
    let east = of([north_east, south_east], |point| point.lon).or(right);
    let (Some(north), Some(south), Some(west), Some(east)) = (north, south, west, east) else {
        return Err(at.invalid(
            "give [top_left] and [bottom_right], [top_right] and [bottom_left], or [top], [left], [bottom] and [right]",
        ));
    };
    if north < south {
        return Err(at.invalid(format_args!("top is below bottom corner: {north} vs. {south}")));
    }
    Area::new(north, west, south, east)
        .ok_or_else(|| at.invalid("a latitude is from -90 to 90 and a longitude from -180 to 180"))
}

/// A corner; of the cell of a geohash, the outer one.
fn corner(value: &Value, at: &At<'_>, is_north: bool, is_west: bool) -> Result<Point> {
    match value.as_str().and_then(Area::of_geohash) {
        Some(cell) => Ok(Point {
            lat: if is_north { cell.north_west.lat } else { cell.south_east.lat },
            lon: if is_west { cell.north_west.lon } else { cell.south_east.lon },
        }),
        None => point(value, at),
    }
}

fn shape_and_relation(value: &Value, at: &At<'_>) -> Result<(Shape, Relation)> {
    let mut options = Object::new(value, at)?;
    options.refuse(&[("indexed_shape", "give the shape itself")])?;
    let given = options.take("shape").ok_or_else(|| at.invalid("[shape] is missing"))?;
    let relation = match options.string("relation")?.map(str::to_ascii_lowercase).as_deref() {
        None | Some("intersects") => Relation::Intersects,
        Some("within") => Relation::Within,
        Some("disjoint") => Relation::Disjoint,
        Some(_) => {
            return Err(at.key("relation").invalid("of points a relation is intersects, within or disjoint"));
        }
    };
    options.finish()?;
    Ok((shape(given, &at.key("shape"))?, relation))
}

/// A shape as GeoJSON or WKT.
fn shape(value: &Value, at: &At<'_>) -> Result<Shape> {
    at.check_depth()?;
    if let Value::String(text) = value {
        let known = "POINT, POLYGON, MULTIPOLYGON and BBOX are known";
        return match Shape::of_wkt(text) {
            Some(shape) => shape.map_err(|why| at.invalid(why)),
            None => Err(at.invalid(format_args!("[{text}] is no shape: {known}"))),
        };
    }
    let mut object = Object::new(value, at)?;
    let kind = object.string("type")?.ok_or_else(|| at.invalid("[type] is missing"))?;
    let (coordinates, geometries) = (object.take("coordinates"), object.take("geometries"));
    let radius = object.take("radius");
    object.ignore(&["orientation"]);
    object.finish()?;
    let at_coordinates = at.key("coordinates");
    let coordinates = || coordinates.ok_or_else(|| at.invalid("[coordinates] is missing"));
    let items = |value: Option<&Value>, at: &At<'_>| {
        let items = value.and_then(Value::as_array).cloned();
        items.ok_or_else(|| at.invalid("expected an array"))
    };
    match kind.to_ascii_lowercase().as_str() {
        "point" => Ok(Shape::Point(point(coordinates()?, &at_coordinates)?)),
        "multipoint" => {
            let all = points(coordinates()?, &at_coordinates)?;
            Ok(Shape::AnyOf(all.into_iter().map(Shape::Point).collect()))
        }
        "envelope" => {
            let corners = points(coordinates()?, &at_coordinates)?;
            let [north_west, south_east] = corners.as_slice() else {
                return Err(at_coordinates.invalid("an envelope has two corners"));
            };
            Area::new(north_west.lat, north_west.lon, south_east.lat, south_east.lon)
                .map(Shape::Area)
                .ok_or_else(|| at_coordinates.invalid("the first corner is that of the north-west"))
        }
        "circle" => {
            let radius = radius.ok_or_else(|| at.invalid("[radius] is missing"))?;
            let metres = length(radius, Unit::Metre, &at.key("radius"))?;
            Ok(Shape::Circle { centre: point(coordinates()?, &at_coordinates)?, metres })
        }
        "polygon" => polygon(rings(coordinates()?, &at_coordinates)?, &at_coordinates),
        "multipolygon" => {
            let all = items(Some(coordinates()?), &at_coordinates)?;
            let all = all.iter().map(|one| polygon(rings(one, &at_coordinates)?, &at_coordinates));
            Ok(Shape::AnyOf(all.collect::<Result<_>>()?))
        }
        "geometrycollection" => {
            let at = at.key("geometries");
            let all = items(geometries, &at)?;
            let all = all.iter().enumerate().map(|(number, one)| shape(one, &at.index(number)));
            Ok(Shape::AnyOf(all.collect::<Result<_>>()?))
        }
        other => Err(at.unsupported(other, "a shape has an area: give a polygon, an envelope or a circle")),
    }
}

fn rings(value: &Value, at: &At<'_>) -> Result<Vec<Vec<Point>>> {
    let rings = value.as_array().ok_or_else(|| at.invalid("expected an array of rings"))?;
    rings.iter().enumerate().map(|(number, ring)| points(ring, &at.index(number))).collect()
}

fn polygon(rings: Vec<Vec<Point>>, at: &At<'_>) -> Result<Shape> {
    Shape::polygon(rings).map_err(|why| at.invalid(why))
}
