//! What jobs ask for as a whole, and whether their accounts may ask for so much: a first look at the door, so that a job
//! that can never be admitted in full is refused at once. Admission itself is the allocator's, task by task.

use crate::allocator::account_and_above;
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use polder_types::{AccountId, Amounts, Bytes, Cpu, JobId, JobSpec};

/// What so many tasks of a job ask for.
#[must_use]
pub fn of_tasks(spec: &JobSpec, tasks: u32) -> Amounts {
    Amounts {
        cpu: Cpu::from_centi_cores(spec.resources.cpu.centi_cores().saturating_mul(tasks)),
        memory: Bytes::new(spec.resources.memory.get().saturating_mul(u64::from(tasks))),
        tasks,
    }
}

/// What was asked for before a job is taken in: by itself, and by the others of its account and those above.
#[derive(Clone, Debug)]
pub struct Demand {
    job: JobId,
    before: Amounts,
    others: BTreeMap<AccountId, Amounts>,
}

impl Demand {
    /// Nothing yet.
    #[must_use]
    pub fn new(job: JobId) -> Self {
        let others = account_and_above(&job.account).into_iter().map(|account| (account, Amounts::default())).collect();
        Self { job, before: Amounts::default(), others }
    }

    /// The job's account and those above it.
    pub fn accounts(&self) -> impl Iterator<Item = &AccountId> {
        self.others.keys()
    }

    /// Counts what a job asks for.
    pub fn add(&mut self, job: &JobId, amounts: Amounts) {
        if *job == self.job {
            self.before = self.before.plus(amounts);
            return;
        }
        for account in account_and_above(&job.account) {
            if let Some(sum) = self.others.get_mut(&account) {
                *sum = sum.plus(amounts);
            }
        }
    }

    /// Whether the job may ask for so much under these limits. What it asked for before is never refused, however far
    /// its account is above a limit that shrank.
    ///
    /// # Errors
    /// When an amount is above a limit and more than before.
    pub fn admit(&self, asked: Amounts, limits: &BTreeMap<AccountId, Amounts>) -> Result<(), Excess> {
        let more = asked.minus(self.before);
        // The job's own account before those above it.
        for (account, others) in self.others.iter().rev() {
            let Some(limit) = limits.get(account) else { continue };
            let over = others.plus(asked).minus(*limit);
            let blocks = (over.cpu.min(more.cpu) > Cpu::ZERO)
                || over.memory.min(more.memory) > Bytes::default()
                || over.tasks.min(more.tasks) > 0;
            if blocks {
                let (account, job) = (account.clone(), self.job.clone());
                return Err(Excess { account, limit: *limit, others: *others, job, asked });
            }
        }
        Ok(())
    }
}

/// An account that may not ask for so much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "account {account} may use {}; its other jobs ask for {}, and {job} asks for {}: that is {} too much",
    all(.limit), all(.others), all(.asked), some(&self.over())
)]
pub struct Excess {
    /// The account: the job's own or one above it.
    pub account: AccountId,
    /// What it may use.
    pub limit: Amounts,
    /// What its other jobs ask for.
    pub others: Amounts,
    /// The job.
    pub job: JobId,
    /// What it asks for.
    pub asked: Amounts,
}

impl Excess {
    /// By how much the account would be above its limit.
    #[must_use]
    pub fn over(&self) -> Amounts {
        self.others.plus(self.asked).minus(self.limit)
    }
}

/// All amounts, in words.
pub(crate) fn all(amounts: &Amounts) -> String {
    format!("{} CPU, {} memory and {}", amounts.cpu, amounts.memory, tasks(amounts.tasks))
}

/// The amounts that are not zero, in words.
pub(crate) fn some(amounts: &Amounts) -> String {
    let mut words: Vec<String> = Vec::new();
    if amounts.cpu > Cpu::ZERO {
        words.push(format!("{} CPU", amounts.cpu));
    }
    if amounts.memory > Bytes::default() {
        words.push(format!("{} memory", amounts.memory));
    }
    if amounts.tasks > 0 {
        words.push(tasks(amounts.tasks));
    }
    match words.split_last() {
        None => "nothing".to_string(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn tasks(number: u32) -> String {
    crate::wording::counted(number, "task")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cpu: u32, mib: u32, tasks: u32) -> Amounts {
        Amounts { cpu: Cpu::from_centi_cores(cpu), memory: Bytes::from_mib(mib), tasks }
    }

    fn job(id: &str) -> JobId {
        id.parse().unwrap()
    }

    fn limits(account: &str, limit: Amounts) -> BTreeMap<AccountId, Amounts> {
        BTreeMap::from([(account.parse().unwrap(), limit)])
    }

    #[test]
    fn an_account_over_its_limit_is_told_by_how_much() {
        let mut demand = Demand::new(job("shop/pay/web"));
        demand.add(&job("shop/pay/api"), amounts(100, 512, 2));
        demand.add(&job("shop/front/web"), amounts(50, 512, 1));
        demand.add(&job("bank/web"), amounts(900, 900, 900));
        // A limit of its own, one of an account above, and none.
        let own = demand.admit(amounts(100, 512, 2), &limits("shop/pay", amounts(150, 2048, 3))).unwrap_err();
        assert_eq!(
            own.to_string(),
            "account shop/pay may use 1.5 CPU, 2GiB memory and 3 tasks; its other jobs ask for 1 CPU, 512MiB memory and \
             2 tasks, and shop/pay/web asks for 1 CPU, 512MiB memory and 2 tasks: that is 0.5 CPU and 1 task too much"
        );
        let above = demand.admit(amounts(100, 512, 2), &limits("shop", amounts(250, 1024, 9))).unwrap_err();
        assert_eq!(above.over(), amounts(0, 512, 0));
        demand.admit(amounts(100, 512, 2), &limits("shop", amounts(250, 1536, 5))).unwrap();
        demand.admit(amounts(100, 512, 2), &limits("bank", amounts(1, 1, 1))).unwrap();
    }

    #[test]
    fn what_was_asked_before_is_not_refused() {
        let mut demand = Demand::new(job("shop/web"));
        demand.add(&job("shop/web"), amounts(400, 400, 4));
        let small = limits("shop", amounts(100, 100, 1));
        demand.admit(amounts(400, 400, 4), &small).unwrap();
        demand.admit(amounts(300, 300, 3), &small).unwrap();
        assert!(demand.admit(amounts(300, 500, 3), &small).is_err());
    }
}
