//! Generated documents are up to date. `UPDATE=1` writes them.

use std::path::Path;

fn up_to_date(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{} is out of date: run `UPDATE=1 cargo test -p polder-api --test documents`",
        path.display()
    );
}

#[test]
fn job_file_reference() {
    up_to_date("job-file.md", &polder_api::job_file::reference());
}

#[test]
fn job_file_schema() {
    up_to_date("job-file.schema.json", &format!("{:#}\n", polder_api::job_file::schema()));
}

#[test]
fn error_reference() {
    up_to_date("errors.md", &polder_api::problem::reference());
}
