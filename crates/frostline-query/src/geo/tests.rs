use proptest::prelude::*;
use serde_json::json;

use super::*;

fn point(lat: f64, lon: f64) -> Point {
    Point::new(lat, lon).unwrap()
}

#[test]
fn a_point_is_read_however_it_is_written() {
    let expected = point(41.12, -71.34);
    for written in [
        json!({"lat": 41.12, "lon": -71.34}),
        json!({"lat": "41.12", "lon": " -71.34"}),
        json!({"type": "Point", "coordinates": [-71.34, 41.12]}),
        json!("41.12,-71.34"),
        json!(" 41.12 , -71.34, 20"),
        json!("POINT (-71.34 41.12)"),
        json!("point(-71.34 41.12 7)"),
        json!([-71.34, 41.12]),
        json!([-71.34, 41.12, 7]),
    ] {
        assert_eq!(Point::of(&written), Some(expected), "{written}");
        assert_eq!(Point::all_of(&json!([written, [written]])), [expected; 2]);
    }
    for none in [
        json!(null),
        json!({}),
        json!({"lat": 1}),
        json!({"lat": 91, "lon": 0}),
        json!({"lat": 0, "lon": 180.5}),
        json!({"type": "LineString", "coordinates": [1, 2]}),
        json!("41.12"),
        json!("a,b"),
        json!("1,2,x"),
        json!("1,2,3,4"),
        json!("POINT (1)"),
        json!("POINT (1 2"),
        json!(""),
        json!("a hat"),
        json!("NaN,1"),
        json!([1]),
        json!([1, 2, 3, 4]),
        json!([1, "2"]),
    ] {
        assert_eq!(Point::of(&none), None, "{none}");
    }
    assert_eq!(Point::of_text(&expected.text()), Some(expected));
}

#[test]
fn geohashes_are_those_of_others() {
    // Examples that are widely published.
    for (lat, lon, hash) in [
        (57.64911, 10.40744, "u4pruydqqvj"),
        (42.605, -5.603, "ezs42"),
        (-25.382708, -49.265506, "6gkzwgjzn820"),
    ] {
        assert_eq!(point(lat, lon).geohash(hash.len() as u8), hash);
    }
    assert_eq!(point(90.0, 180.0).geohash(4), "zzzz");
    assert_eq!(point(-90.0, -180.0).geohash(4), "0000");
    let cell = Area::of_geohash("ezs42").unwrap();
    assert!(
        (cell.south_east.lat - 42.5830078125).abs() < 1e-12
            && (cell.north_west.lat - 42.626953125).abs() < 1e-12
    );
    assert!(
        (cell.north_west.lon + 5.625).abs() < 1e-12 && (cell.south_east.lon + 5.5810546875).abs() < 1e-12
    );
    for none in ["", "a", "ezs4i", "0123456789bcd"] {
        assert_eq!(Area::of_geohash(none), None, "{none}");
    }
}

#[test]
fn tiles_are_those_of_maps() {
    let text = |lat, lon, zoom| Tile::of(point(lat, lon), zoom).text();
    assert_eq!(text(37.2343, -115.8067, 12), "12/730/1590");
    assert_eq!(text(41.12, -71.34, 12), "12/1236/1533");
    assert_eq!(text(90.0, 0.0, 12), "12/2048/0");
    assert_eq!(text(-90.0, 180.0, 3), "3/7/7");
    assert_eq!(text(0.0, -180.0, 0), "0/0/0");
    let (near, far) = (Tile::number_of_text("12/730/1590"), Tile::number_of_text("12/1236/1533"));
    assert!(near < far);
    assert_eq!(Tile::of_number(far.unwrap()).text(), "12/1236/1533");
    for none in ["", "1", "1/2", "1/2/0", "30/0/0", "1/-1/0", "2/1/1/1"] {
        assert_eq!(Tile::number_of_text(none), None, "{none}");
    }
}

#[test]
fn distances_are_read_in_all_units() {
    for (text, metres) in [
        ("12km", 12_000.0),
        ("12 km", 12_000.0),
        ("1e3", 1_000.0),
        ("2e1mi", 32_186.88),
        ("1nmi", 1_852.0),
        ("3ft", 0.9144),
        ("5 yards", 4.572),
        ("10mm", 0.01),
    ] {
        let read = Unit::length(text, Unit::Metre).unwrap();
        assert!((read - metres).abs() < 1e-9, "{text}: {read}");
    }
    assert_eq!(Unit::length("2", Unit::Kilometre), Some(2_000.0));
    for none in ["", "km", "1parsec", "1e999km", "x"] {
        assert_eq!(Unit::length(none, Unit::Metre), None, "{none}");
    }
}

#[test]
fn areas_may_cross_the_date_line() {
    let area = Area::new(10.0, 170.0, -10.0, -170.0).unwrap();
    for (lon, inside) in
        [(169.9, false), (170.0, true), (180.0, true), (-180.0, true), (-170.0, true), (0.0, false)]
    {
        assert_eq!(area.contains(point(0.0, lon)), inside, "{lon}");
    }
    // Both longitudes of the date line are one meridian.
    assert!(Area::new(10.0, 170.0, -10.0, 180.0).unwrap().contains(point(0.0, -180.0)));
    assert!(!Area::new(10.0, 170.0, -10.0, 179.0).unwrap().contains(point(0.0, -180.0)));
    assert!(area.meets(&Area::new(5.0, -175.0, 0.0, 0.0).unwrap()));
    assert!(!area.meets(&Area::new(5.0, -160.0, 0.0, 160.0).unwrap()));
    assert!(!area.meets(&Area::new(30.0, 175.0, 20.0, 176.0).unwrap()));
    assert_eq!(Area::new(0.0, 0.0, 1.0, 1.0), None);
}

#[test]
fn polygons_have_holes_and_edges() {
    let ring = |points: &[(f64, f64)]| points.iter().map(|(lon, lat)| point(*lat, *lon)).collect::<Vec<_>>();
    let outer = ring(&[(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0), (0.0, 0.0)]);
    let hole = ring(&[(4.0, 4.0), (6.0, 4.0), (6.0, 6.0), (4.0, 6.0)]);
    let shape = Shape::polygon(vec![outer, hole]).unwrap();
    for (lon, lat, inside) in [
        (1.0, 1.0, true),
        (5.0, 5.0, false),
        (4.0, 5.0, true),
        (10.0, 3.0, true),
        (0.0, 0.0, true),
        (11.0, 3.0, false),
        (-1.0, 0.0, false),
    ] {
        assert_eq!(shape.contains(point(lat, lon)), inside, "{lon} {lat}");
    }
    let wkt = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (4 4, 6 4, 6 6, 4 6, 4 4))";
    assert_eq!(Shape::of_wkt(wkt), Some(Ok(shape.clone())));
    let many = Shape::of_wkt(&format!("MULTIPOLYGON ({})", &wkt["POLYGON ".len()..])).unwrap().unwrap();
    assert_eq!(many, Shape::AnyOf(vec![shape]));
    let bbox = Shape::of_wkt("BBOX (170, -170, 10, -10)").unwrap().unwrap();
    assert_eq!(bbox, Shape::Area(Area::new(10.0, 170.0, -10.0, -170.0).unwrap()));
    assert!(Shape::polygon(vec![ring(&[(0.0, 0.0), (1.0, 1.0)])]).unwrap_err().contains("three"));
    assert!(
        Shape::polygon(vec![ring(&[(-170.0, 0.0), (170.0, 0.0), (0.0, 9.0)])])
            .unwrap_err()
            .contains("date line")
    );
    for none in ["POLYGON", "POLYGON ((0 0)", "POLYGON ((a b))", "LINESTRING (0 0, 1 1)", "BBOX (1, 2, 3)"] {
        assert_eq!(Shape::of_wkt(none), None, "{none}");
    }
}

/// The angle between two points as vectors.
fn model_metres(a: Point, b: Point) -> f64 {
    let vector = |point: Point| {
        let (lat, lon) = (point.lat.to_radians(), point.lon.to_radians());
        [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
    };
    let (a, b) = (vector(a), vector(b));
    let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let dot: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    let sine = cross.iter().map(|part| part * part).sum::<f64>().sqrt();
    6_371_008.771_4 * sine.atan2(dot)
}

prop_compose! {
    fn any_point()(
        lat in prop_oneof![-90.0..=90.0f64, Just(90.0), Just(-90.0), Just(0.0)],
        lon in prop_oneof![-180.0..=180.0f64, Just(180.0), Just(-180.0), Just(0.0)],
    ) -> Point {
        point(lat, lon)
    }
}

proptest! {
    #[test]
    fn distances_are_those_between_vectors(a in any_point(), b in any_point()) {
        let (own, model) = (a.metres_to(b), model_metres(a, b));
        prop_assert!((own - model).abs() < 0.2, "{own} {model}");
    }

    #[test]
    fn an_area_of_a_shape_has_all_of_it(a in any_point(), b in any_point(), c in any_point(), at in any_point(), metres in 0.0..2e7f64) {
        let mut shapes = vec![Shape::Circle { centre: a, metres }, Shape::Point(a)];
        shapes.extend(Area::new(a.lat, a.lon, b.lat, b.lon).map(Shape::Area));
        shapes.extend(Shape::polygon(vec![vec![a, b, c]]));
        for shape in shapes {
            if shape.contains(at) {
                let area = shape.area().unwrap();
                prop_assert!(area.contains(at), "{shape:?} {area:?}");
            }
        }
    }

    #[test]
    fn a_point_is_in_its_cells(at in any_point(), length in 1..=12u8, zoom in 0..=20u8) {
        let hash = at.geohash(length);
        let cell = Area::of_geohash(&hash).unwrap();
        prop_assert!(cell.contains(at), "{hash} {cell:?}");
        if length < 12 {
            prop_assert!(at.geohash(length + 1).starts_with(&hash));
        }
        // The south-western corner of a cell is in it, as a text that is read, too.
        if length < 12 {
            prop_assert_eq!(Point::of_text(&hash).unwrap().geohash(length), hash);
        }
        let tile = Tile::of(at, zoom).area().unwrap();
        if at.lat.abs() < 85.0 {
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            let (north, south) = (tile.north_west.lat, tile.south_east.lat);
            prop_assert!(tile.contains(at) || near(north, at.lat) || near(south, at.lat), "{tile:?}");
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,40}", numbers in "[-(), .0-9a-zPOINTBX]{0,40}") {
        for text in [text, numbers] {
            let _ = (Point::of_text(&text), Shape::of_wkt(&text), Area::of_geohash(&text));
            let _ = (Unit::length(&text, Unit::Metre), Tile::number_of_text(&text));
        }
    }
}
