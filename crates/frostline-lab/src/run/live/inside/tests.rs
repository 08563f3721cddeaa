use super::*;
use crate::host::probe::Host;
use crate::record::Mode;
use crate::study::plan::plan;
use crate::study::{Place, Study};

#[test]
fn every_guest_cell_of_the_warm_tier_is_a_stack_that_can_be() {
    let study = Study::find("warm-tier").unwrap();
    let full = plan(&study, Mode::Full, 1, &[], &Host::default()).unwrap();
    let mut seen = 0;
    for cell in &full.cells {
        let setup = &study.setups[&study.groups[cell.group_index].setup];
        if setup.place == Place::Guest {
            spec(setup.guest.as_ref().unwrap(), cell).unwrap_or_else(|e| panic!("{}: {e}", cell.id));
            seen += 1;
        }
    }
    assert_eq!(seen, 16);
}
