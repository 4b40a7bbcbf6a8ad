//! x
use clap::Parser;
#[derive(Parser)]
struct A {
    #[command(subcommand)]
    c: C,
}
#[derive(clap::Subcommand)]
enum C {
    Replay(training_exporter::cli::replay::Args),
}
fn main() -> anyhow::Result<()> {
    match A::parse().c {
        C::Replay(a) => training_exporter::cli::replay::run(&a, &mut std::io::stdout().lock()),
    }
}
