use super::*;

#[test]
fn show_tables_is_told_from_other_queries() {
    for (query, shows) in
        [("show tables", true), (" SHOW\n TABLES ; ", true), ("show tables like 'x'", false)]
    {
        assert_eq!(Sql::shows_tables(query), shows, "{query}");
    }
}
