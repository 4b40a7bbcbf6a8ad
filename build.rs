//! Cargo does not see a new file in a folder that `include_dir!` takes in; this tells it to look.
fn main() {
    println!("cargo:rerun-if-changed=src/presets");
    println!("cargo:rerun-if-changed=src/scenario/demos");
    println!("cargo:rerun-if-changed=tests/joint");
}
