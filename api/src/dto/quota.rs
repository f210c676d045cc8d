//! Quota.

use super::foreign::AmountsSchema;
use polder_types::{AccountId, Amounts, RegionId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What an account may use; the body of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaRequest {
    /// The whole, over all regions.
    #[schema(value_type = AmountsSchema)]
    pub limit: Amounts,
    /// The part of each region; empty means evenly over all regions. Their sum may not be above `limit`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AmountsSchema>)]
    pub regions: BTreeMap<RegionId, Amounts>,
}

/// One region's part of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaPart {
    /// The region.
    #[schema(value_type = String)]
    pub region: RegionId,
    /// What it may admit by itself.
    #[schema(value_type = AmountsSchema)]
    pub allotment: Amounts,
    /// What it is to have in the end, where that is known: it gets there as regions agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AmountsSchema>)]
    pub wanted: Option<Amounts>,
    /// What its task records charge.
    #[schema(value_type = AmountsSchema)]
    pub used: Amounts,
    /// When the region said so.
    #[schema(value_type = u64)]
    pub as_of: Timestamp,
}

/// A quota and what is used of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaView {
    /// The account.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// The whole, over all regions; in a region's own answer, its part.
    #[schema(value_type = AmountsSchema)]
    pub limit: Amounts,
    /// What is used, over all regions.
    #[schema(value_type = AmountsSchema)]
    pub used: Amounts,
    /// The parts.
    pub regions: Vec<QuotaPart>,
}

/// What removing a quota did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaRemoved {
    /// The account.
    #[schema(value_type = String)]
    pub account: AccountId,
}

/// All quotas, in order of their accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaList {
    /// The quotas.
    pub quotas: Vec<QuotaView>,
}
