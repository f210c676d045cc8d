//! What the program is told by its arguments and environment.

use std::time::Duration;

/// Which program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Service,
    Batch,
    Child { secs: u64 },
}

/// Everything that changes how it behaves.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) role: Role,
    /// `PORT_HTTP`, else `PORT`, else 8080; 0 takes any free one.
    pub(crate) port: u16,
    /// `DEMO_SLOW_START_SECS`: how long it is not healthy at first.
    pub(crate) slow_start: Duration,
    /// `DEMO_STOP_SECS`: how long it goes on after it was told to stop.
    pub(crate) stop_after: Duration,
    /// `DEMO_IGNORE_STOP=1`: it does not stop.
    pub(crate) ignore_stop: bool,
    /// `DEMO_EXIT_AFTER_SECS`: when it ends by itself.
    pub(crate) exit_after: Option<Duration>,
    /// `DEMO_EXIT_CODE`: and with what.
    pub(crate) exit_code: i32,
    pub(crate) version: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) epoch: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) region: Option<String>,
}

impl Settings {
    pub(crate) fn read(
        mut args: impl Iterator<Item = String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let role = match args.next().as_deref() {
            None | Some("serve") => Role::Service,
            Some("batch") => Role::Batch,
            Some("child") => {
                let secs = args.next().unwrap_or_default();
                Role::Child { secs: secs.parse().map_err(|_| format!("`child {secs}`: want a number of seconds"))? }
            }
            Some(other) => return Err(format!("`{other}` is no role; want `serve`, `batch` or `child SECS`")),
        };
        let number = |name: &str| match env(name).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => text.parse::<u32>().map(Some).map_err(|_| format!("{name}={text}: want a whole number")),
        };
        let secs = |name: &str| number(name).map(|secs| secs.map(|secs| Duration::from_secs(secs.into())));
        let port = number("PORT_HTTP")?.or(number("PORT")?).unwrap_or(8080);
        let ignore_stop = number("DEMO_IGNORE_STOP")?.unwrap_or(0);
        let exit_code = number("DEMO_EXIT_CODE")?.unwrap_or(0);
        Ok(Self {
            role,
            port: u16::try_from(port).map_err(|_| format!("{port} is no port; the largest is 65535"))?,
            slow_start: secs("DEMO_SLOW_START_SECS")?.unwrap_or_default(),
            stop_after: secs("DEMO_STOP_SECS")?.unwrap_or_default(),
            ignore_stop: ignore_stop != 0,
            exit_after: secs("DEMO_EXIT_AFTER_SECS")?,
            exit_code: u8::try_from(exit_code).map_err(|_| format!("DEMO_EXIT_CODE={exit_code}: at most 255"))?.into(),
            version: env("DEMO_VERSION"),
            task: env("POLDER_TASK"),
            epoch: env("POLDER_EPOCH"),
            host: env("POLDER_HOST"),
            region: env("POLDER_REGION"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, String> {
        let look = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::read(args.iter().map(|arg| (*arg).to_owned()), look)
    }

    #[test]
    fn settings_have_defaults_and_are_checked() {
        let settings = read(&[], &[]).unwrap();
        assert_eq!((settings.role, settings.port, settings.exit_after), (Role::Service, 8080, None));
        assert_eq!(read(&[], &[("PORT", "1"), ("PORT_HTTP", "2")]).unwrap().port, 2);
        assert_eq!(read(&[], &[("PORT", "1")]).unwrap().port, 1);
        assert_eq!(read(&["child", "7"], &[]).unwrap().role, Role::Child { secs: 7 });
        for (args, env) in [
            (&["serve-me"][..], &[][..]),
            (&["child"], &[]),
            (&[], &[("PORT", "70000")]),
            (&[], &[("PORT", "x")]),
            (&[], &[("DEMO_EXIT_CODE", "256")]),
            (&[], &[("DEMO_STOP_SECS", "-1")]),
        ] {
            assert!(read(args, env).is_err(), "{args:?} {env:?}");
        }
    }
}
