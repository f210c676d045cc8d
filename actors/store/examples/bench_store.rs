//! Prints figures of a store; never a test.
//!
//! ```sh
//! cargo run --release -p polder-store --example bench_store                   # embedded
//! cargo run --release -p polder-store --example bench_store -- etcd 3         # etcd, three members on this machine
//! ```

#![expect(clippy::print_stdout, reason = "it is what a benchmark is for")]

use polder_store::{EmbeddedStore, EtcdStore, Op, Store, Txn, sequence, testing::EtcdServer};
use std::{
    env,
    error::Error,
    fs::File,
    io::{Seek as _, Write as _},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const RUN: Duration = Duration::from_secs(5);
const VALUE_BYTES: usize = 256;
const KEYS: usize = 1_000_000;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let args: Vec<String> = env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("etcd") => {
            let members = args.get(1).map_or(Ok(1), |text| text.parse())?;
            runtime.block_on(etcd(members))
        }
        _ => embedded(&runtime),
    }
}

fn embedded(runtime: &tokio::runtime::Runtime) -> Outcome<()> {
    let dir = tempfile::Builder::new().prefix("polder-bench-").tempdir_in(env::current_dir()?)?;
    println!("fdatasync of 4 KiB: {:.0}/s (one by one; what the disk can do)", syncs(dir.path())?);
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path().join("writes"))?);
        figures("embedded", &store).await
    })?;
    let path = dir.path().join("large");
    let begun = Instant::now();
    runtime.block_on(async {
        let store = EmbeddedStore::open(&path)?;
        for part in 0..KEYS / 1000 {
            // Spread over the whole range, as task chunks of many shards are.
            let key = |n: usize| format!("tasks/{:03}/{:08}", n % 256, n.wrapping_mul(2_654_435_761) % 100_000_000);
            let ops = (0..1000).map(|n| Op::put(key(part * 1000 + n), vec![7; VALUE_BYTES])).collect();
            let txns = sequence::split(ops, &[])?;
            for outcome in futures::future::join_all(txns.into_iter().map(|txn| store.commit(txn))).await {
                outcome.committed().ok_or_else(|| outcome.to_string())?;
            }
        }
        println!("embedded: {KEYS} keys loaded in {:.1} s", begun.elapsed().as_secs_f64());
        println!("embedded: {} MiB on disk", store.size_bytes().await? >> 20);
        Outcome::Ok(())
    })?;
    let begun = Instant::now();
    let store = EmbeddedStore::open(&path)?;
    println!("embedded: {KEYS} keys opened in {:.3} s", begun.elapsed().as_secs_f64());
    runtime.block_on(async {
        let begun = Instant::now();
        let keys = store.list("").await?.entries.len();
        let secs = begun.elapsed().as_secs_f64();
        println!("embedded: {keys} keys listed in {secs:.2} s");
        Outcome::Ok(())
    })
}

async fn etcd(members: usize) -> Outcome<()> {
    let server = EtcdServer::start(members).await?;
    let store: Arc<dyn Store> = Arc::new(EtcdStore::connect(&server.endpoints(), "bench").await?);
    figures(&format!("etcd x {members}"), &store).await
}

async fn figures(name: &str, store: &Arc<dyn Store>) -> Outcome<()> {
    for (writers, batch) in [(1, 1), (32, 1), (256, 1), (8, 100), (32, 100)] {
        let begun = Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let store = Arc::clone(store);
                tokio::spawn(async move {
                    let mut waits = Vec::new();
                    for round in 0_usize.. {
                        if begun.elapsed() > RUN {
                            break;
                        }
                        let key = |n| format!("bench/{writer:03}/{:06}", (round * batch + n) % 10_000);
                        let ops = (0..batch).map(|n| Op::put(key(n), vec![7; VALUE_BYTES])).collect();
                        let asked = Instant::now();
                        let outcome = store.commit(Txn::new(Vec::new(), ops)?).await;
                        outcome.committed().ok_or_else(|| outcome.to_string())?;
                        waits.push(asked.elapsed());
                    }
                    Outcome::Ok(waits)
                })
            })
            .collect();
        let mut waits = Vec::new();
        for task in tasks {
            waits.extend(task.await??);
        }
        waits.sort_unstable();
        let puts = waits.len() * batch;
        let rate = f64::from(u32::try_from(puts)?) / begun.elapsed().as_secs_f64();
        let at = |share: usize| waits.get(waits.len() * share / 100).copied().unwrap_or_default();
        println!(
            "{name}: {writers} writers x {batch} puts of {VALUE_BYTES} bytes: {rate:.0} durable puts/s, p50 {:.2?}, p99 {:.2?}",
            at(50),
            at(99)
        );
    }
    Ok(())
}

/// What the disk can do at most: a preallocated file, one write and sync after the other.
fn syncs(dir: &Path) -> Outcome<f64> {
    let mut file = File::create(dir.join("sync"))?;
    file.write_all(&vec![0; 16 << 20])?;
    file.sync_all()?;
    file.rewind()?;
    let begun = Instant::now();
    let mut count = 0_u32;
    while begun.elapsed() < Duration::from_secs(1) {
        if count.is_multiple_of(4096) {
            file.rewind()?;
        }
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}
