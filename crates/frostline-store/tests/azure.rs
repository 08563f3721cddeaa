//! The conformance suite against Azurite, Microsoft's emulator of Azure Blob Storage.
//!
//! `FROSTLINE_TEST_AZURE` is a connection string; `tests/azure_server.sh start DIR` starts an Azurite with a container
//! `frostline-test` and prints it.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use frostline_store::conformance::{Scale, conformance};
use frostline_store::{OpenOptions, Repository};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azurite_conforms() {
    let Ok(connection) = std::env::var("FROSTLINE_TEST_AZURE") else {
        // Past the test harness, which would keep it to itself.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: FROSTLINE_TEST_AZURE is not set; eval \"$(tests/azure_server.sh start DIR)\" starts a server"
        );
        return;
    };
    let environment = [("AZURE_STORAGE_CONNECTION_STRING".to_owned(), connection)].into();
    let options = OpenOptions { environment: Some(environment), ..OpenOptions::default() };
    let repository = Repository::open("az://frostline-test/a", &options).unwrap();
    let root = format!("azure-{:016x}", rand::random::<u64>());
    conformance(&repository, &root, Scale { listed: 1_100, races: 10 }).await;
    assert!(repository.meter().cost().puts > 1_000);
}
