//! Serializes our plans, so that another process over the same repository can run them with the same answer.
//!
//! DataFusion serializes its own operators; ours are a version, a kind and their fields. Input is validated: any bytes
//! give a plan or an error.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::not_impl_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::physical_plan::{
    DefaultPhysicalProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode};
use serde::{Deserialize, Serialize};

use crate::errors::{external, internal, ours};
use crate::exec::finish::{FinalExec, Merge};
use crate::exec::groups::{Groups, GroupsExec};
use crate::exec::leaf::{Leaf, LeafExec};
use crate::{Error, Result};

/// Version of the encoding: a program of another version refuses it.
const VERSION: u8 = 9;

/// Serializes a plan.
pub(crate) fn write(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
    let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), &Codec).map_err(internal)?;
    Ok(bytes.to_vec())
}

/// Deserializes a plan.
pub(crate) fn read(bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
    physical_plan_from_bytes_with_proto_converter(bytes, context, &Codec, &Operators).map_err(|error| {
        ours(&error).unwrap_or_else(|| Error::corrupt("a plan cannot be read").with_source(error))
    })
}

/// The node that bytes hold, over nothing or over what was found.
pub(crate) fn read_node(bytes: &[u8]) -> impl Iterator<Item = Arc<dyn ExecutionPlan>> {
    let found: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(crate::exec::found::schema()));
    let read = move |inputs: &[Arc<dyn ExecutionPlan>]| Node::read(bytes)?.plan(inputs);
    [read(&[]), read(&[found])].into_iter().flatten()
}

/// The bytes of each of our nodes in a plan.
#[cfg(test)]
pub(crate) fn nodes(plan: &Arc<dyn ExecutionPlan>) -> Vec<Vec<u8>> {
    let mut own = Vec::new();
    if let Some(node) = Node::of(plan.as_ref()) {
        node.write(&mut own).unwrap();
    }
    let below = plan.children().into_iter().flat_map(nodes);
    [own].into_iter().filter(|own| !own.is_empty()).chain(below).collect()
}

/// One of our nodes, without its inputs.
#[derive(Serialize, Deserialize)]
enum Node {
    Leaf(Box<Leaf>),
    Final(Merge),
    Groups(Groups),
}

impl Node {
    fn of(plan: &dyn ExecutionPlan) -> Option<Node> {
        if let Some(leaf) = plan.downcast_ref::<LeafExec>() {
            return Some(Node::Leaf(Box::new(leaf.leaf().clone())));
        }
        if let Some(last) = plan.downcast_ref::<FinalExec>() {
            return Some(Node::Final(last.step().clone()));
        }
        plan.downcast_ref::<GroupsExec>().map(|groups| Node::Groups(groups.step().clone()))
    }

    fn write(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let body = postcard::to_allocvec(self);
        let body = body.map_err(|e| Error::internal("a plan cannot be written").with_source(e))?;
        bytes.push(VERSION);
        bytes.extend(body);
        Ok(())
    }

    fn read(bytes: &[u8]) -> Result<Node> {
        let body = match bytes.split_first() {
            Some((&VERSION, body)) => body,
            Some((version, _)) => {
                let what = format!("a plan of version {version}, where this program reads {VERSION}");
                return Err(Error::invalid(what));
            }
            None => return Err(Error::corrupt("an empty plan")),
        };
        postcard::from_bytes(body).map_err(|e| Error::corrupt("a plan cannot be read").with_source(e))
    }

    fn plan(self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
        match (self, inputs) {
            (Node::Leaf(leaf), []) => {
                leaf.check()?;
                Ok(LeafExec::new(*leaf))
            }
            (Node::Final(merge), [input]) if input.schema() == crate::exec::found::schema() => {
                merge.check()?;
                Ok(Arc::new(FinalExec::new(Arc::clone(input), merge)))
            }
            (Node::Groups(groups), [input]) if input.schema() == crate::exec::found::schema() => {
                groups.check()?;
                Ok(Arc::new(GroupsExec::new(Arc::clone(input), groups)))
            }
            _ => Err(Error::corrupt("a plan whose node has other inputs")),
        }
    }
}

/// Serializes our nodes for DataFusion.
#[derive(Debug)]
struct Codec;

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Node::read(bytes).and_then(|node| node.plan(inputs)).map_err(external)
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> DataFusionResult<()> {
        let Some(node) = Node::of(plan.as_ref()) else {
            return not_impl_err!("{} does not travel", plan.name());
        };
        node.write(bytes).map_err(external)
    }
}

/// Reads DataFusion's operators for it, but none that reads or writes files: a plan of ours reads the repository alone.
struct Operators;

impl PhysicalProtoConverterExtension for Operators {
    fn proto_to_execution_plan(
        &self,
        node: &PhysicalPlanNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        use PhysicalPlanType::{
            ArrowScan, AvroScan, CsvScan, CsvSink, JsonScan, JsonSink, ParquetScan, ParquetSink,
        };
        match node.physical_plan_type {
            Some(
                ArrowScan(_) | AvroScan(_) | CsvScan(_) | JsonScan(_) | ParquetScan(_) | CsvSink(_)
                | JsonSink(_) | ParquetSink(_),
            ) => Err(external(Error::invalid("a plan that reads or writes files"))),
            _ => self.default_proto_to_execution_plan(node, context),
        }
    }

    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> DataFusionResult<PhysicalPlanNode> {
        DefaultPhysicalProtoConverter {}.execution_plan_to_proto(plan, codec)
    }

    fn proto_to_physical_expr(
        &self,
        expression: &PhysicalExprNode,
        schema: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        self.default_proto_to_physical_expr(expression, schema, context)
    }

    fn physical_expr_to_proto(
        &self,
        expression: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> DataFusionResult<PhysicalExprNode> {
        DefaultPhysicalProtoConverter {}.physical_expr_to_proto(expression, codec)
    }
}
