//! What may be done with an index: whether it is closed or hidden, and what is blocked.
//!
//! All of this is in the index's [settings](crate::INDEX_SETTINGS), of which the catalog reads just these. Whoever reads
//! or writes documents for somebody asks first; upkeep does not, because it changes no document.

use serde_json::Value;

use frostline_base::{Error, IndexName, Result};

use crate::expression::closed;
use crate::records::{INDEX_SETTINGS, Records};

/// The fact that names the index of an error which says that it is blocked; `block` names what blocks it.
pub const BLOCKED_INDEX: &str = "blocked_index";
/// The member of an index's settings that says that it is closed.
pub const CLOSED: &str = "closed";
const HIDDEN: &str = "hidden";

/// What somebody wants of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read documents.
    Read,
    /// To add, change or delete documents.
    Write,
    /// To read its mapping and settings.
    ReadMetadata,
    /// To change these, or what it is.
    WriteMetadata,
}

/// What keeps an index from being read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Of its mapping and settings.
    Metadata,
    /// Of reading documents.
    Read,
    /// Of all changes.
    ReadOnly,
    /// Of all changes but deleting it.
    ReadOnlyAllowDelete,
    /// Of changing documents.
    Write,
}

impl Block {
    /// Every block.
    pub const ALL: [Block; 5] =
        [Block::ReadOnly, Block::Read, Block::Write, Block::Metadata, Block::ReadOnlyAllowDelete];

    /// Its name in the settings is `blocks.` and this.
    pub fn name(self) -> &'static str {
        match self {
            Block::Metadata => "metadata",
            Block::Read => "read",
            Block::ReadOnly => "read_only",
            Block::ReadOnlyAllowDelete => "read_only_allow_delete",
            Block::Write => "write",
        }
    }

    /// Whether it keeps somebody from this.
    pub fn forbids(self, access: Access) -> bool {
        match self {
            Block::Metadata => matches!(access, Access::ReadMetadata | Access::WriteMetadata),
            Block::Read => access == Access::Read,
            Block::ReadOnly | Block::ReadOnlyAllowDelete => {
                matches!(access, Access::Write | Access::WriteMetadata)
            }
            Block::Write => access == Access::Write,
        }
    }
}

impl Records {
    /// Whether an index is closed: nobody reads or writes its documents, and wildcards leave it out.
    pub fn is_closed(&self, index: &IndexName) -> bool {
        self.says(index, CLOSED)
    }

    /// Whether wildcards leave an index out.
    pub fn is_hidden(&self, index: &IndexName) -> bool {
        self.says(index, HIDDEN)
    }

    /// What blocks an index. One that is mounted from a snapshot takes no documents.
    pub fn blocks(&self, index: &IndexName) -> impl Iterator<Item = Block> {
        let is_blocked = |block: &Block| {
            (*block == Block::Write && self.mounted(index).is_some())
                || self.says(index, &format!("blocks.{}", block.name()))
        };
        Block::ALL.into_iter().filter(is_blocked)
    }

    /// `Invalid` where the index is closed.
    pub fn check_open(&self, index: &IndexName) -> Result<()> {
        match self.is_closed(index) {
            true => Err(closed(index).with("table", self.table_id(index).unwrap_or_default())),
            false => Ok(()),
        }
    }

    /// `Invalid` where the index is closed, or blocked for this.
    pub fn check_access(&self, index: &IndexName, access: Access) -> Result<()> {
        if matches!(access, Access::Read | Access::Write) {
            self.check_open(index)?;
        }
        match self.blocks(index).find(|block| block.forbids(access)) {
            None => Ok(()),
            Some(block) => Err(Error::invalid("a setting of the index, index.blocks, keeps from this")
                .with(BLOCKED_INDEX, index)
                .with("block", block.name())),
        }
    }

    /// `Invalid` where a block keeps the index from being deleted.
    pub fn check_deletion(&self, index: &IndexName) -> Result<()> {
        let keeps =
            |block: Block| block != Block::ReadOnlyAllowDelete && block.forbids(Access::WriteMetadata);
        match self.blocks(index).any(keeps) {
            true => self.check_access(index, Access::WriteMetadata),
            false => Ok(()),
        }
    }

    fn says(&self, index: &IndexName, member: &str) -> bool {
        let settings = self.other(INDEX_SETTINGS, index.as_str());
        settings.and_then(|settings| settings.get(member)).is_some_and(|value| *value == Value::Bool(true))
    }
}

#[cfg(test)]
mod tests;
