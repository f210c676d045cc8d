//! What breaks makes an alert fire in a real Alertmanager, and the runbook that the alert names clears it.

use polder_api::dto::PartState;
use polder_e2e::{
    Cluster, Options, eventually,
    observed::{Alertmanager, Prometheus, Runbook, Setup, missing_program},
    turn,
};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// A Prometheus and an Alertmanager for a cluster.
struct Watch {
    alertmanager: Alertmanager,
    _prometheus: Prometheus,
    folder: PathBuf,
}

impl Watch {
    fn over(cluster: &Cluster) -> Self {
        let folder = cluster.dir().join("watch");
        fs::create_dir(&folder).unwrap();
        let alertmanager = Alertmanager::start(&folder);
        let federation = cluster.addr().trim_start_matches("http://");
        let prometheus = Prometheus::start(&Setup {
            folder: folder.clone(),
            federation,
            targets: cluster.targets(),
            alertmanager: Some(alertmanager.address()),
            hasty: true,
        });
        eventually("every host is scraped", || {
            (prometheus.query("up{job=\"polder-host\"} == 1").len() == 2).then_some(())
        });
        Self { alertmanager, _prometheus: prometheus, folder }
    }

    /// Waits until an alert has reached Alertmanager, and gives the runbook that it names.
    fn await_alert(&self, name: &str) -> Runbook {
        let alert = eventually(&format!("{name} fires"), || self.alertmanager.alerts(name).pop());
        let says = |what: &str| alert["annotations"][what].as_str().unwrap_or_else(|| panic!("{alert}")).to_owned();
        assert!(!says("summary").contains("{{") && !says("summary").contains("<no value>"), "{alert}");
        assert!(!says("description").contains("<no value>"), "{alert}");
        assert!(!alert["receivers"].as_array().unwrap().is_empty(), "somebody is told: {alert}");
        Runbook::at(&says("runbook_url"))
    }

    fn await_silence(&self, name: &str) {
        eventually(&format!("{name} is resolved"), || self.alertmanager.alerts(name).is_empty().then_some(()));
    }
}

/// What a person on call has set before beginning.
fn variables(cluster: &Cluster, host: &str) -> Vec<(&'static str, String)> {
    let programs = cluster.polder().parent().unwrap().display().to_string();
    vec![
        ("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap())),
        ("POLDER_ADDR", cluster.addr().to_owned()),
        ("REGION_ADDR", cluster.region_addr("r1")),
        ("HOST", host.to_owned()),
        ("REGION", "r1".to_owned()),
        ("DATA", cluster.data_of(host).display().to_string()),
        ("START_HOST", format!("touch {}", cluster.dir().join("start").display())),
    ]
}

/// How much of the disk of a folder is free.
fn free_share(folder: &Path) -> f64 {
    let output = Command::new("df").args(["--output=avail,size", "-B1"]).arg(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers[0] / numbers[1]
}

fn can_run(test: &str) -> bool {
    let missing = missing_program(&["prometheus", "prometheus-alertmanager", "jq"]);
    if let Some(program) = missing {
        eprintln!("SKIP {test}: {program} is not installed; `make deps` installs it");
    }
    missing.is_none()
}

#[test]
fn a_killed_host_alerts_and_its_runbook_brings_it_back() {
    const NAME: &str = "alerts::a_killed_host_alerts_and_its_runbook_brings_it_back";
    let Some(_turn) = turn(NAME) else { return };
    if !can_run(NAME) {
        return;
    }
    let mut cluster = Cluster::start(&Options { regions: 1, ..Options::default() });
    let job = cluster.job("web", 2, "", "");
    cluster.must(&["apply", "-f", &job, "--wait", "--timeout", "120s"]);
    let watch = Watch::over(&cluster);
    assert!(watch.alertmanager.alerts("PolderHostSilent").is_empty(), "nothing is wrong yet");

    cluster.kill_host("r1-h1");
    let runbook = watch.await_alert("PolderHostSilent");
    watch.await_alert("PolderHostTargetDown");
    let variables = variables(&cluster, "r1-h1");
    let said = runbook.run("Find out which", &variables, &watch.folder);
    assert!(said.contains("silent"), "{said}");
    let start = cluster.dir().join("start");
    thread::scope(|scope| {
        // The init system of this machine.
        let init = scope.spawn(|| {
            eventually("the agent is to be started", || start.exists().then_some(()));
            cluster.revive("r1-h1");
        });
        runbook.run("The agent is gone, the machine is there", &variables, &watch.folder);
        init.join().unwrap();
    });
    watch.await_silence("PolderHostSilent");
    watch.await_silence("PolderHostTargetDown");
    cluster.await_state("web", PartState::Healthy);

    // Now for good: its name is closed, and given to another machine.
    fs::remove_file(cluster.dir().join("start")).unwrap();
    cluster.kill_host("r1-h1");
    fs::remove_dir_all(cluster.data_of("r1-h1")).unwrap();
    watch.await_alert("PolderHostSilent");
    thread::scope(|scope| {
        let init = scope.spawn(|| {
            eventually("the agent is to be started", || start.exists().then_some(()));
            cluster.revive("r1-h1");
        });
        runbook.run("The machine is gone for good", &variables, &watch.folder);
        init.join().unwrap();
    });
    watch.await_silence("PolderHostSilent");
    cluster.await_state("web", PartState::Healthy);
}

#[test]
fn a_full_disk_alerts_and_its_runbook_makes_room() {
    const NAME: &str = "alerts::a_full_disk_alerts_and_its_runbook_makes_room";
    const DISK_MIB: u32 = 256;
    let Some(_turn) = turn(NAME) else { return };
    if !can_run(NAME) {
        return;
    }
    let cluster = Cluster::start(&Options { regions: 1, host_disk_mib: Some(DISK_MIB), ..Options::default() });
    let job = cluster.job("web", 2, "", "");
    cluster.must(&["apply", "-f", &job, "--wait", "--timeout", "120s"]);
    let watch = Watch::over(&cluster);
    assert!(watch.alertmanager.alerts("PolderDiskFull").is_empty(), "there is room yet");
    assert!(watch.alertmanager.alerts("PolderDiskNearlyFull").is_empty(), "there is room yet");

    // A container fills the disk that it is on, from within.
    let task = cluster.tasks("web").into_iter().find(|task| task.host == "r1-h1").unwrap();
    let mut file = fs::File::create(format!("/proc/{}/root/filler", task.pid)).unwrap();
    while free_share(&cluster.data_of("r1-h1")) > 0.035 {
        file.write_all(&vec![7; 1 << 20]).unwrap();
    }
    drop(file);
    watch.await_alert("PolderDiskNearlyFull");
    let runbook = watch.await_alert("PolderDiskFull");
    let variables = variables(&cluster, "r1-h1");
    for section in ["Keep new tasks away", "See what is large", "Make room", "Open the host"] {
        runbook.run(section, &variables, &watch.folder);
    }
    watch.await_silence("PolderDiskFull");
    watch.await_silence("PolderDiskNearlyFull");
    cluster.await_state("web", PartState::Healthy);
    assert!(cluster.tasks("web").iter().all(|task| task.host == "r1-h2"), "it was moved to a disk with room");
}
