//! What can happen in a world.

use crate::{
    names::{ActorId, AllocatorAt, FedAt, HostAt, NodeAt, ShardAt},
    plan::Fault,
    store::TxnUnderWay,
};
use polder_core::{
    allocator, host, intent_router, job_shard,
    message::{HostOrder, HostReport, SliceStatus},
    quota_ledger,
};
use polder_types::{AccountId, Allotment, Amounts, ContainerId, ExitStatus, JobId, Slice, SliceVersion, Timestamp};

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    Committed,
    Conflict,
    Unknown,
}

/// One thing that happens. What concerns a process carries the number of its life: it is void after a crash.
#[derive(Debug)]
pub(crate) enum Happening {
    // ---- actors ----
    /// An actor's timer rings.
    Wake(ActorId, u32),
    /// A stalled actor goes on.
    GoOn(ActorId),
    /// A commit is answered.
    Answer(ActorId, u32, Commit),
    /// An actor's pause before its restore is over.
    Restore(ActorId, u32),
    /// Its restore goes on.
    Reading(ActorId, u32, u16),
    ToRouter(FedAt, u32, Box<intent_router::Event>),
    ToLedger(FedAt, u32, Box<quota_ledger::Event>),
    ToAllocator(AllocatorAt, u32, Box<allocator::Event>),
    ToShard(ShardAt, u32, Box<job_shard::Event>),
    ToHost(HostAt, u32, Box<host::Event>),
    /// A host has written to its disk: for which agent, and which machine.
    Written(HostAt, u32, u32),
    /// A transaction reaches its store.
    Txn(Box<TxnUnderWay>),

    // ---- processes ----
    /// A process starts.
    Start(Process),
    /// A lease is to be renewed.
    Renew(Process, u32),
    /// A renewal reaches the store.
    Renewed(Process, u32, u64),
    /// A holder looks whether its lease is still sure.
    LeaseCheck(Process, u32),
    /// A store looks whether a lease has ended.
    LeaseEnd(Process, u32),
    /// A standby tries to take the lead.
    Acquire(Process, u32),
    /// Those who missed what brokers said are told again.
    Missed(NodeAt, u32),

    // ---- links between hosts and nodes ----
    /// A host tries to open a link.
    Connect(HostAt, u32),
    /// An attempt to open one has got no answer.
    ConnectTimeout(HostAt, u32, u64),
    /// Something comes to a node over a host's link.
    Up(NodeAt, u32, HostAt, u64, Up),
    /// Something comes to a host over its link.
    Down(HostAt, u32, NodeAt, u64, Down),
    /// One side looks whether the other is still heard.
    HostIdle(HostAt, u32, u64),
    NodeIdle(NodeAt, u32, HostAt, u64),
    /// A host was to have said what it has by now, or to be let in.
    EnteringEnds(NodeAt, u32, u32, u64, bool),
    /// What shards had no room for is tried again.
    Owed(NodeAt, u32, HostAt, u64),

    // ---- containers ----
    /// A launch has come to its end.
    LaunchEnds(HostAt, u32, ContainerId),
    /// A container's processes end, whoever watches.
    Exit(HostAt, u32, ContainerId, Box<ExitStatus>),
    /// The runtime has tried to remove what is left.
    RemoveEnds(HostAt, u32, ContainerId),
    /// A host's agent is told that time passes.
    Tick(HostAt, u32),

    // ---- between the federation and regions ----
    Ask(NodeAt, FedAt, u32, u32, Box<Ask>),
    Tell(FedAt, u32, u8, u32, Box<Tell>),
    /// A follower does its next look at a region.
    Look(FedAt, u32, u8, u32),
    /// What was put to a region about a job is not waited for any longer.
    PutTimeout(FedAt, u32, u8, JobId, u32),
    /// A node tells a watcher of changed slices.
    Changes(NodeAt, u32, FedAt),
    /// An allotment is looked for at the allocator.
    AllotmentKnown(NodeAt, u32, Box<AllotmentPut>),
    /// An allotment reaches the store.
    AllotmentStore(NodeAt, u32, Box<AllotmentPut>),

    // ---- the world ----
    Fault(Fault),
    Repair(Box<Repair>),
    /// A process that stood still goes on.
    Thaw(Process, u32),
    Person,
    PersonAgain(Box<Order>),
}

/// A process that may crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Process {
    Federation(FedAt),
    Node(NodeAt),
    Agent(HostAt),
}

/// What a host says over a link.
#[derive(Debug)]
pub(crate) enum Up {
    Hello,
    Report(Box<HostReport>),
    Closed,
}

/// What a node says over a link.
#[derive(Debug)]
pub(crate) enum Down {
    Welcome,
    Reject,
    Order(Box<HostOrder>),
    Closed,
}

/// What the federation asks of a region.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Slice(Box<Slice>),
    Drop(JobId, SliceVersion),
    Allotment(Allotment),
    List,
    Quotas,
    Watch,
}

impl Ask {
    /// Whether it changes something, and is repeated until it has.
    pub(crate) const fn is_put(&self) -> bool {
        matches!(self, Self::Slice(_) | Self::Drop(..) | Self::Allotment(_))
    }

    /// The job that it is about.
    pub(crate) const fn job(&self) -> Option<&JobId> {
        match self {
            Self::Slice(slice) => Some(&slice.spec.id),
            Self::Drop(job, _) => Some(job),
            _ => None,
        }
    }
}

/// What a region answers.
#[derive(Debug)]
pub(crate) enum Tell {
    Slice {
        job: JobId,
        asked: SliceVersion,
        status: Result<SliceVersion, String>,
    },
    /// Whether it has forgotten a slice.
    Dropped {
        job: JobId,
        asked: SliceVersion,
        problem: Option<String>,
    },
    Allotment(Allotment),
    List(Vec<(SliceStatus, Timestamp)>),
    Quotas(Vec<(AccountId, Amounts)>),
    Changes(Vec<(SliceStatus, Timestamp)>),
    WatchEnded,
    /// It can't be reached, or does not lead.
    Failed,
}

/// An allotment on its way through a region's node.
#[derive(Clone, Debug)]
pub(crate) struct AllotmentPut {
    pub(crate) from: FedAt,
    pub(crate) from_life: u32,
    pub(crate) allotment: Allotment,
    pub(crate) tries: u32,
    pub(crate) give_up_at: u64,
}

/// What ends a fault.
#[derive(Clone, Debug)]
pub(crate) enum Repair {
    Cut { host: HostAt, cut: u32 },
    FederationCut { region: u8, cut: u32 },
    StoreCut(Process, u32),
    PowerOn(HostAt),
}

/// What a person orders.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    Apply(Box<polder_types::JobSpec>),
    Stop(JobId),
    Delete(JobId),
    Quota(AccountId, Amounts),
    RemoveQuota(AccountId),
    Cordon(HostAt),
    Uncordon(HostAt),
    Drain(HostAt, u64),
    Abort(HostAt),
}
