use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn every_number_is_in_the_bucket_of_its_magnitude_and_reads_back(mut numbers: Vec<f64>) {
        numbers.retain(|number| number.is_finite());
        numbers.sort_by(f64::total_cmp);
        let distribution = Distribution::of(numbers.iter().map(|number| (*number, 2)));
        let mut model: BTreeMap<(i8, i32), u64> = BTreeMap::new();
        for number in &numbers {
            let key = bucket(number.abs(), gamma_ln(DISTRIBUTION_ERROR)).map_or((0, 0), |at| (number.signum() as i8, at));
            *model.entry(key).or_default() += 2;
        }
        let side = |sign| model.iter().filter(|((of, _), _)| *of == sign).map(|((_, at), n)| (*at, *n)).collect::<Vec<_>>();
        prop_assert_eq!(&distribution.positive, &side(1));
        prop_assert_eq!(&distribution.negative, &side(-1));
        prop_assert_eq!(distribution.count(), 2 * numbers.len() as u64);
        let mut bytes = Vec::new();
        distribution.put(&mut bytes);
        prop_assert_eq!(Distribution::read(&mut Cursor::new(&bytes)).unwrap(), distribution);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        if let Ok(distribution) = Distribution::read(&mut Cursor::new(&bytes)) {
            distribution.count();
        }
    }
}
