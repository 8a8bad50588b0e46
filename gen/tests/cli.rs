//! What the command prints, and its exit codes: one script for each case in `cmd/`.

#[test]
fn commands() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
