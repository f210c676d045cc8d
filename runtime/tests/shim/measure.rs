//! Figures, printed. Run by hand: `cargo test --release -p polder-runtime --test shim -- --ignored measure --nocapture`.

use std::{fs, time::Instant};

use polder_runtime::shim::Runtime as _;

use super::harness::Harness;

const STARTS: u32 = 200;
const IDLE: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn measure_create_start_wait_remove() {
    let Some(harness) = Harness::new() else { return };
    let mut steps: [Vec<u128>; 4] = Default::default();
    for number in 0..STARTS {
        let mut spec = harness.spec(number, "");
        spec.args = vec!["/bin/true".to_owned()];
        let id = spec.id.clone();
        let mut at = Instant::now();
        let mut step = |index: usize| {
            steps[index].push(at.elapsed().as_micros());
            at = Instant::now();
        };
        harness.runtime.create(spec).await.unwrap();
        step(0);
        harness.runtime.start(&id).await.unwrap();
        step(1);
        harness.wait(&id).await;
        step(2);
        harness.runtime.remove(&id).await.unwrap();
        step(3);
    }
    for (name, times) in ["create", "start", "wait", "remove"].into_iter().zip(&mut steps) {
        times.sort_unstable();
        eprintln!("{name}: median {} us, p90 {} us", times[times.len() / 2], times[times.len() * 9 / 10]);
    }
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn measure_two_at_a_time_left_running() {
    let Some(harness) = Harness::new() else { return };
    let begun = Instant::now();
    for pair in 0..STARTS / 4 {
        let start = |number| harness.start(harness.spec(number, "exec sleep 1000"));
        tokio::join!(start(2 * pair), start(2 * pair + 1));
    }
    let each = begun.elapsed() / (STARTS / 2);
    eprintln!("two at a time, left running: {:.0}/s", 1.0 / each.as_secs_f64());
    for number in 0..STARTS / 2 {
        let id = super::harness::id(number);
        harness.runtime.kill(&id).await.unwrap();
        harness.wait(&id).await;
        harness.runtime.remove(&id).await.unwrap();
    }
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn measure_idle_shims() {
    let Some(harness) = Harness::new() else { return };
    for number in 0..IDLE {
        harness.start(harness.spec(number, "exec sleep 1000")).await;
    }
    let (mut pss, mut private, mut rss) = (0, 0, 0);
    for number in 0..IDLE {
        let shim = harness.shim(&super::harness::id(number));
        let text = fs::read_to_string(format!("/proc/{shim}/smaps_rollup")).unwrap();
        let kib = |key: &str| -> u64 {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
        };
        pss += kib("Pss:");
        private += kib("Private_Dirty:");
        rss += kib("Rss:");
    }
    let mean = |sum: u64| sum / u64::from(IDLE);
    eprintln!("{IDLE} idle shims, mean KiB: PSS {}, private dirty {}, RSS {}", mean(pss), mean(private), mean(rss));
    for number in 0..IDLE {
        let id = super::harness::id(number);
        harness.runtime.kill(&id).await.unwrap();
        harness.wait(&id).await;
        harness.runtime.remove(&id).await.unwrap();
    }
    harness.finish();
}
