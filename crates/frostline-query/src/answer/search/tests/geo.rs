//! Queries, aggregations and orders of points, by a look at the points of every document.

use std::collections::{BTreeMap, BTreeSet};

use frostline_split::{DocumentForm, Mapping, WriterOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::geo::{Area, Point};
use crate::testing::Place;

/// A point, at the ends of the map and on a coarse grid more often than elsewhere.
fn point() -> impl Strategy<Value = Point> {
    let lat = prop_oneof![
        3 => (-18i32..=18).prop_map(|fives| f64::from(fives) * 5.0),
        3 => -90.0..=90.0f64,
        1 => prop::sample::select(vec![-90.0, 90.0, 0.0]),
    ];
    let lon = prop_oneof![
        3 => (-36i32..=36).prop_map(|fives| f64::from(fives) * 5.0),
        3 => -180.0..=180.0f64,
        1 => prop::sample::select(vec![-180.0, 180.0, 0.0, 179.5, -179.5]),
    ];
    (lat, lon).prop_map(|(lat, lon)| Point { lat, lon })
}

/// A number as JSON writes it, without a fraction where it has none.
fn number(degrees: f64) -> Value {
    if degrees.fract() == 0.0 { json!(degrees as i64) } else { json!(degrees) }
}

/// A point in one of the ways in which it is written.
fn spelled(at: Point, spelling: u8) -> Value {
    let Point { lat, lon } = at;
    match spelling % 7 {
        0 => json!({ "lat": lat, "lon": lon }),
        1 => json!({ "lat": number(lat), "lon": number(lon) }),
        2 => json!(format!("{lat},{lon}")),
        3 => json!([lon, lat]),
        4 => json!([number(lon), number(lat)]),
        5 => json!(format!("POINT ({lon} {lat})")),
        _ => json!({ "type": "Point", "coordinates": [lon, lat] }),
    }
}

type Documents = Vec<Vec<Vec<(Point, u8)>>>;

/// The points of documents, in up to three splits. Many documents have one, as logs have, and most write it alike.
fn documents() -> impl Strategy<Value = Documents> {
    let spelling = || prop_oneof![2 => Just(0u8), 1 => 0..7u8];
    let points = prop_oneof![
        6 => prop::collection::vec((point(), spelling()), 1..2),
        1 => prop::collection::vec((point(), spelling()), 0..4),
    ];
    prop::collection::vec(prop::collection::vec(points, 1..30), 1..4)
}

fn written(documents: &Documents) -> Vec<Vec<Value>> {
    let mut n = 0;
    let mut document = |points: &Vec<(Point, u8)>| {
        n += 1;
        let all: Vec<Value> = points.iter().map(|(at, spelling)| spelled(*at, *spelling)).collect();
        match all.as_slice() {
            [] => json!({ "n": n - 1, "other": 1 }),
            [one] => json!({ "n": n - 1, "at": one }),
            _ => json!({ "n": n - 1, "at": all }),
        }
    };
    documents.iter().map(|group| group.iter().map(&mut document).collect()).collect()
}

fn declared() -> Mapping {
    Mapping::from_elasticsearch_json(&json!({ "properties": { "at": { "type": "geo_point" } } })).unwrap()
}

/// The numbers of the documents whose points are as they should be.
fn model(documents: &Documents, holds: impl Fn(&[Point]) -> bool) -> Vec<i64> {
    let all = documents.iter().flatten().enumerate();
    let points = |points: &Vec<(Point, u8)>| points.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    all.filter(|(_, one)| !one.is_empty() && holds(&points(one))).map(|(n, _)| n as i64).collect()
}

async fn found(place: &Place, query: &Value) -> Vec<i64> {
    let mut found = place.numbers(&json!({ "query": query, "size": 1000 })).await;
    found.sort_unstable();
    found
}

fn in_area(at: &Point, north: f64, west: f64, south: f64, east: f64) -> bool {
    let is_between = |lon: f64| {
        if west <= east { west <= lon && lon <= east } else { lon >= west || lon <= east }
    };
    // The date line has two longitudes.
    let meets = is_between(at.lon) || (at.lon.abs() == 180.0 && is_between(-at.lon));
    south <= at.lat && at.lat <= north && meets
}

async fn check(documents: &Documents, place: &Place, a: Point, b: Point, metres: f64) {
    let (north, south) = (a.lat.max(b.lat), a.lat.min(b.lat));
    let inside = |at: &Point| in_area(at, north, a.lon, south, b.lon);
    let corners = json!({ "top_left": [a.lon, north], "bottom_right": { "lat": south, "lon": b.lon } });
    let query = json!({ "geo_bounding_box": { "at": corners } });
    assert_eq!(found(place, &query).await, model(documents, |all| all.iter().any(inside)), "{query}");

    let envelope = json!({ "type": "envelope", "coordinates": [[a.lon, north], [b.lon, south]] });
    let shape =
        |relation: &str| json!({ "geo_shape": { "at": { "shape": envelope, "relation": relation } } });
    let within = model(documents, |all| all.iter().all(inside));
    assert_eq!(found(place, &shape("within")).await, within, "{envelope}");
    let disjoint = model(documents, |all| !all.iter().any(inside));
    assert_eq!(found(place, &shape("disjoint")).await, disjoint, "{envelope}");

    let near = |at: &Point| at.metres_to(a) <= metres;
    let query = json!({ "geo_distance": { "distance": format!("{metres}m"), "at": [a.lon, a.lat] } });
    assert_eq!(found(place, &query).await, model(documents, |all| all.iter().any(near)), "{query}");

    let all = model(documents, |_| true);
    assert_eq!(found(place, &json!({ "exists": { "field": "at" } })).await, all);

    let sort = json!({ "_geo_distance": { "at": a.text(), "unit": "km" } });
    let sorted =
        json!({ "size": 1000, "sort": [sort, { "n": "asc" }], "query": { "exists": { "field": "at" } } });
    let answer = place.answer(&sorted).await;
    let distances: Vec<f64> =
        answer.hits.hits.iter().map(|hit| hit.sort.as_ref().unwrap()[0].as_f64().unwrap()).collect();
    let least = |all: &Vec<(Point, u8)>| {
        all.iter().map(|(at, _)| at.metres_to(a) / 1000.0).fold(f64::INFINITY, f64::min)
    };
    let mut expected: Vec<f64> =
        documents.iter().flatten().filter(|all| !all.is_empty()).map(least).collect();
    expected.sort_by(f64::total_cmp);
    assert_eq!(distances.len(), expected.len());
    for (own, model) in distances.iter().zip(&expected) {
        assert!((own - model).abs() < 1e-6, "{own} {model}");
    }
    check_aggregations(documents, place, a, metres).await;
}

async fn check_aggregations(documents: &Documents, place: &Place, a: Point, metres: f64) {
    let body = json!({ "size": 0, "aggs": {
        "hashes": { "geohash_grid": { "field": "at", "precision": 2 } },
        "tiles": { "geotile_grid": { "field": "at", "precision": 3 } },
        "pages": { "composite": { "size": 1000, "sources": [
            { "tile": { "geotile_grid": { "field": "at", "precision": 3 } } },
        ] } },
        "rings": { "geo_distance": { "field": "at", "origin": { "lat": a.lat, "lon": a.lon }, "ranges": [
            { "to": metres }, { "from": metres },
        ] } },
        "bounds": { "geo_bounds": { "field": "at", "wrap_longitude": false } },
        "centroid": { "geo_centroid": { "field": "at" } },
    } });
    let answer = place.answer(&body).await.aggregations.unwrap().to_value();
    let counts = |of: &str, key: fn(&Value) -> String| {
        let buckets = answer[of]["buckets"].as_array().unwrap().iter();
        buckets.map(|bucket| (key(&bucket["key"]), bucket["doc_count"].as_u64().unwrap())).collect::<Vec<_>>()
    };
    let text = |key: &Value| key.as_str().unwrap().to_owned();
    let model = |cell: &dyn Fn(Point) -> String| {
        let mut cells: BTreeMap<String, u64> = BTreeMap::new();
        for points in documents.iter().flatten() {
            let of_document: BTreeSet<String> = points.iter().map(|(at, _)| cell(*at)).collect();
            of_document.into_iter().for_each(|cell| *cells.entry(cell).or_default() += 1);
        }
        cells.into_iter().collect::<BTreeSet<_>>()
    };
    let hashes = model(&|at| at.geohash(2));
    assert_eq!(counts("hashes", text).into_iter().collect::<BTreeSet<_>>(), hashes);
    let tiles = model(&|at| {
        // By the formula of the projection alone.
        let side = |share: f64| ((share * 8.0).floor() as i64).clamp(0, 7);
        let y = 0.5 - at.lat.to_radians().sin().atanh() / (2.0 * std::f64::consts::PI);
        format!("3/{}/{}", side((at.lon + 180.0) / 360.0), side(y))
    });
    assert_eq!(counts("tiles", text).into_iter().collect::<BTreeSet<_>>(), tiles);
    let pages = counts("pages", |key| key["tile"].as_str().unwrap().to_owned());
    let place_of = |(tile, _): &(String, u64)| {
        let parts: Vec<u32> = tile.split('/').map(|part| part.parse().unwrap()).collect();
        (parts[1], parts[2])
    };
    assert!(pages.is_sorted_by_key(place_of), "{pages:?}");
    assert_eq!(pages.into_iter().collect::<BTreeSet<_>>(), tiles);
    let rings: Vec<u64> = counts("rings", text).into_iter().map(|(_, count)| count).collect();
    let all = |holds: &dyn Fn(f64) -> bool| {
        let holds = |points: &&Vec<(Point, u8)>| points.iter().any(|(at, _)| holds(a.metres_to(*at)));
        documents.iter().flatten().filter(holds).count() as u64
    };
    assert_eq!(rings, [all(&|distance| distance < metres), all(&|distance| distance >= metres)]);
    let points: Vec<Point> = documents.iter().flatten().flatten().map(|(at, _)| *at).collect();
    assert_eq!(answer["centroid"]["count"], json!(points.len()));
    let ends = |of: fn(&Point) -> f64| {
        let values = || points.iter().map(of);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (bounds, centroid) = (&answer["bounds"]["bounds"], &answer["centroid"]["location"]);
    if points.is_empty() {
        assert_eq!((bounds, centroid), (&Value::Null, &Value::Null));
        return;
    }
    let ((south, north), (west, east)) = (ends(|at| at.lat), ends(|at| at.lon));
    let expected =
        json!({ "top_left": { "lat": north, "lon": west }, "bottom_right": { "lat": south, "lon": east } });
    assert_eq!(*bounds, expected);
    let middle = points.iter().map(|at| at.lat).sum::<f64>() / points.len() as f64;
    assert!((centroid["lat"].as_f64().unwrap() - middle).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn points_are_found_where_they_are(
        documents in documents(), a in point(), b in point(), metres in 0.0..2e7f64, is_declared: bool
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mapping = if is_declared { declared() } else { Mapping::dynamic() };
            let place = Place::with_mapping(&written(&documents), mapping).await;
            check(&documents, &place, a, b, metres).await;
            let all: Vec<usize> = (0..documents.len()).collect();
            // Columns alone, from which documents are rendered.
            let options = WriterOptions { documents: DocumentForm::Rendered, ..WriterOptions::default() };
            let place = place.merged(&[all], options).await;
            check(&documents, &place, a, b, metres).await;
        });
    }
}

async fn ask(place: &Place, query: Value) -> Vec<i64> {
    found(place, &query).await
}

fn cities() -> Vec<Vec<Value>> {
    vec![
        vec![
            json!({"n": 0, "name": "Quito", "at": {"lat": -0.1807, "lon": -78.4678}}),
            json!({"n": 1, "name": "Suva", "at": "-18.1416,178.4419"}),
            json!({"n": 2, "name": "Apia", "at": [-171.7514, -13.8507]}),
        ],
        vec![
            json!({"n": 3, "name": "Oslo", "at": "u4xsu"}),
            json!({"n": 4, "name": "both", "at": [{"lat": 10, "lon": 20}, {"lat": 10.5, "lon": 20.5}]}),
            json!({"n": 5, "name": "none", "at": {"lat": 100, "lon": 20}}),
        ],
    ]
}

#[tokio::test]
async fn queries_of_points_take_what_clients_send() {
    for mapping in [declared(), Mapping::dynamic()] {
        let place = Place::with_mapping(&cities(), mapping).await;
        let boxes =
            |corners: Value| json!({ "geo_bounding_box": { "at": corners, "validation_method": "STRICT" } });
        for corners in [
            json!({"top_left": "0,170", "bottom_right": "-30,-170"}),
            json!({"top_right": [-170, 0], "bottom_left": {"lat": -30, "lon": 170}}),
            json!({"top": 0, "left": 170, "bottom": -30, "right": -170}),
            json!({"wkt": "BBOX (170, -170, 0, -30)"}),
        ] {
            assert_eq!(ask(&place, boxes(corners)).await, [1, 2]);
        }
        // A geohash is the whole of its cell.
        assert_eq!(ask(&place, boxes(json!({"top_left": "u4", "bottom_right": "u4"}))).await, [3]);
        let triangle = json!([[15, 5], [25, 5], [20.4, 12]]);
        assert_eq!(ask(&place, json!({"geo_polygon": {"at": {"points": triangle}}})).await, [4]);
        let distance = json!({"geo_distance": {"distance": "1200km", "at": {"lat": -16.0, "lon": -180.0}}});
        assert_eq!(ask(&place, distance.clone()).await, [1, 2]);
        assert_eq!(ask(&place, json!({"bool": {"must_not": distance}})).await, [0, 3, 4, 5]);
        let shape = |shape: &str, relation: &str| json!({"geo_shape": {"at": {"shape": shape, "relation": relation}, "ignore_unmapped": true}});
        let square = "POLYGON ((19 9, 20.2 9, 20.2 11, 19 11, 19 9))";
        assert_eq!(ask(&place, shape(square, "INTERSECTS")).await, [4]);
        assert_eq!(ask(&place, shape(square, "within")).await, Vec::<i64>::new());
        assert_eq!(ask(&place, shape(square, "disjoint")).await, [0, 1, 2, 3]);
        assert_eq!(
            ask(&place, json!({"geo_distance": {"distance": "1km", "nowhere": [0, 0]}})).await,
            [0; 0]
        );
        for (query, why) in [
            (json!({"geo_distance": {"at": [0, 0]}}), "[distance] is missing"),
            (json!({"geo_distance": {"distance": "1 parsec", "at": [0, 0]}}), "is no distance"),
            (json!({"geo_distance": {"distance": "1km", "at": [0, 95]}}), "is no point"),
            (json!({"geo_distance": {"distance": "1km"}}), "a field is missing"),
            (json!({"geo_distance": {"distance": "1km", "at": [0, 0], "b": [0, 0]}}), "expected one field"),
            (boxes(json!({"top": 0, "left": 0, "bottom": 1, "right": 1})), "top is below bottom"),
            (boxes(json!({"top": 0, "left": 0})), "give [top_left] and [bottom_right]"),
            (json!({"geo_polygon": {"at": {"points": [[0, 0], [1, 1]]}}}), "three"),
            (shape("LINESTRING (0 0, 1 1)", "within"), "is no shape"),
            (shape(square, "contains"), "intersects, within or disjoint"),
            (json!({"geo_shape": {"at": {"indexed_shape": {"id": "a"}}}}), "give the shape itself"),
        ] {
            let error = place.search(&json!({"query": query})).err().unwrap().to_string();
            assert!(error.contains(why), "{query}: {error}");
        }
    }
}

#[tokio::test]
async fn grids_are_ordered_and_bounded() {
    let place = Place::with_mapping(&cities(), declared()).await;
    let buckets = |aggregation: Value| {
        let place = &place;
        async move {
            let body = json!({"size": 0, "aggs": {"grid": aggregation}});
            let answer = place.answer(&body).await.aggregations.unwrap().to_value();
            assert_eq!(answer["grid"].as_object().unwrap().len(), 1);
            let buckets = answer["grid"]["buckets"].as_array().unwrap().clone();
            buckets.iter().map(|bucket| bucket["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    // Of cells with as many documents the last comes first.
    assert_eq!(
        buckets(json!({"geohash_grid": {"field": "at", "precision": 1}})).await,
        ["u", "s", "r", "6", "2"]
    );
    assert_eq!(
        buckets(json!({"geohash_grid": {"field": "at", "precision": 1, "size": 2}})).await,
        ["u", "s"]
    );
    let bounds = json!({"top_left": "0,170", "bottom_right": "-30,-170"});
    assert_eq!(
        buckets(json!({"geotile_grid": {"field": "at", "precision": 4, "bounds": bounds}})).await,
        ["4/15/8", "4/0/8"]
    );
    for (aggregation, why) in [
        (json!({"geotile_grid": {"field": "at", "precision": 30}}), "Must be between 0 and 29"),
        (json!({"geohash_grid": {"field": "at", "precision": 0}}), "Must be between 1 and 12"),
        (json!({"geo_distance": {"field": "at", "ranges": []}}), "[origin] is missing"),
        (json!({"geo_bounds": {}}), "[field] is required"),
    ] {
        let error = place.search(&json!({"aggs": {"a": aggregation}})).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    let wrapped =
        json!({"size": 0, "query": {"terms": {"n": [1, 2]}}, "aggs": {"a": {"geo_bounds": {"field": "at"}}}});
    let answer = place.answer(&wrapped).await.aggregations.unwrap().to_value();
    assert_eq!(answer["a"]["bounds"]["top_left"]["lon"], 178.4419);
    assert_eq!(answer["a"]["bounds"]["bottom_right"]["lon"], -171.7514);
}

#[tokio::test]
async fn points_are_shown_as_clients_expect_them() {
    let place = Place::with_mapping(&cities(), declared()).await;
    let body = json!({"query": {"term": {"n": 4}}, "fields": ["at"], "docvalue_fields": []});
    let shown = |body: Value| {
        let place = &place;
        async move {
            let answer = place.answer(&body).await;
            serde_json::to_value(&answer.hits.hits[0].fields).unwrap()["at"].clone()
        }
    };
    let geojson = |lon: f64, lat: f64| json!({"coordinates": [lon, lat], "type": "Point"});
    assert_eq!(shown(body.clone()).await, json!([geojson(20.0, 10.0), geojson(20.5, 10.5)]));
    let mut wkt = body.clone();
    wkt["fields"] = json!([{"field": "at", "format": "wkt"}]);
    assert_eq!(shown(wkt).await, json!(["POINT (20.0 10.0)", "POINT (20.5 10.5)"]));
    let column = json!({"query": {"term": {"n": 1}}, "docvalue_fields": ["at"]});
    assert_eq!(shown(column).await, json!(["-18.1416, 178.4419"]));
}

#[tokio::test]
async fn objects_have_points_of_their_own() {
    let mapping =
        json!({"properties": {"stops": {"type": "nested", "properties": {"at": {"type": "geo_point"}}}}});
    let mapping = Mapping::from_elasticsearch_json(&mapping).unwrap();
    let documents = vec![vec![
        json!({"n": 0, "stops": [{"k": "a", "at": [1, 1]}, {"k": "b", "at": [50, 50]}]}),
        json!({"n": 1, "stops": [{"k": "b", "at": [1.5, 1.5]}, {"k": "a", "at": "51,51"}]}),
    ]];
    let place = Place::with_mapping(&documents, mapping).await;
    let near = json!({"geo_distance": {"distance": "200km", "stops.at": [1, 1]}});
    let query =
        json!({"nested": {"path": "stops", "query": {"bool": {"must": [near, {"term": {"stops.k": "a"}}]}}}});
    assert_eq!(ask(&place, query).await, [0]);
    let body = json!({"size": 0, "aggs": {"stops": {"nested": {"path": "stops"}, "aggs": {
        "grid": {"geohash_grid": {"field": "stops.at", "precision": 1}},
    }}}});
    let answer = place.answer(&body).await.aggregations.unwrap().to_value();
    let buckets = answer["stops"]["grid"]["buckets"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket["doc_count"].as_u64().unwrap()).sum::<u64>(), 4);
    assert_eq!(buckets.len(), 2);
}

#[tokio::test]
async fn who_does_not_see_a_part_of_a_point_does_not_see_the_point() {
    let place = Place::with_mapping(&cities(), declared()).await;
    for hidden in ["at", "at.lat"] {
        let seen = place.index.mapping().seen(|path| path != hidden);
        let field = crate::filter::FieldRef::points(&[&seen], "at", crate::geo::PointsAs::Points);
        assert!(field.paths().is_empty());
        // Nor do the indices alone show it that declare it.
        assert!(field.within(&seen, place.index.name()).paths().is_empty());
    }
    let all = Area::new(90.0, -180.0, -90.0, 180.0).unwrap();
    assert!(all.contains(Point { lat: 0.0, lon: 0.0 }));
}
