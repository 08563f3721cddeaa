//! The JSON schema of a run's files, for other tools.

use serde_json::{Value, json};

use crate::record::FORMAT;

/// The schema (draft 2020-12) of `run.json`; `#/$defs/sample` is that of a line of `samples.ndjson`.
///
/// A measured figure that is no number is `null`.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of frostline lab",
        "$ref": "#/$defs/run",
        "$defs": {
            "run": run(),
            "asked": object(json!({
                "cells": strings("Groups of cells that replace those of the mode; empty if none do"),
                "cpu_pressure_max": {"type": ["number", "null"], "description": "Highest CPU pressure of a sample in percent, in place of the study's limit"},
                "study_hash": string("XXH3 of the study's text, 16 hexadecimal digits"),
            })),
            "machine": object(json!({
                "kernel": string("uname -r"),
                "cpu": string("Model name of the first CPU"),
                "cpus": count("CPUs that are online"),
                "memory_bytes": count("Bytes of memory"),
                "os": string("Name of the operating system"),
                "hypervisor": {"type": ["string", "null"], "description": "The hypervisor, if one is named"},
            })),
            "cell": cell(),
            "summary": object(json!({
                "unit": string("Such as MiB/s, IOPS or ms"),
                "values": {"type": "array", "items": {"type": "number"}, "description": "In the order of blocks"},
                "median": figure("Median of the values"),
                "low": figure("Interval of the median, lower end"),
                "high": figure("Interval of the median, upper end"),
                "confidence": {"type": ["number", "null"], "description": "How often such an interval holds the truth: 0.95, or less for the range of few values"},
            })),
            "comparison": comparison(),
            "sample": sample(),
            "gate": object(json!({
                "name": string("Such as device_bytes"),
                "what": string("What it read and against what"),
                "passed": {"type": "boolean", "description": "Whether the sample stands"},
            })),
            "figures": {"type": "object", "additionalProperties": {"type": "number"}, "description": "By metric"},
        }
    })
}

fn run() -> Value {
    object(json!({
        "format": {"const": FORMAT, "description": "Version of the files of a run"},
        "study": string("Name of the study"),
        "title": string("Its title"),
        "command": string("What was typed"),
        "asked": {"anyOf": [{"$ref": "#/$defs/asked"}, {"type": "null"}], "description": "What the run was asked for, which a resumed run keeps; null in runs of earlier builds"},
        "started": string("RFC 3339"),
        "seed": count("Seed of every choice of order and data"),
        "mode": {"enum": ["simulate", "quick", "full"]},
        "time_scale": figure("Burst buckets were this many times smaller than real ones"),
        "machine": {"$ref": "#/$defs/machine"},
        "tools": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Version lines"},
        "file_systems": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Type and UUID, or device, of the file systems that the study names, by path"},
        "devices": {"type": "object", "additionalProperties": {"type": "string"}, "description": "What identifies the block devices that the study names, by path: names by their maker or driver, and size"},
        "cells": list("#/$defs/cell"),
        "comparisons": list("#/$defs/comparison"),
        "korean": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Korean of title, notes and comparisons"},
        "notes": strings("What a reader must know"),
        "complete": {"type": "boolean", "description": "Whether every planned sample is there"},
    }))
}

fn cell() -> Value {
    object(json!({
        "id": string("factor=level,factor=level; unique in a run"),
        "levels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Level by factor"},
        "how": {"enum": ["run", "emulate", "simulate", "fixture", "skip"]},
        "why": string("What decided how"),
        "measured": {"type": "object", "additionalProperties": {"$ref": "#/$defs/summary"}, "description": "By metric"},
        "modelled": {"$ref": "#/$defs/figures"},
        "published": {"$ref": "#/$defs/figures"},
        "voided": count("Samples that a gate voided"),
        "notes": strings("Remarks, each once"),
    }))
}

fn comparison() -> Value {
    let range = json!({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2});
    object(json!({
        "name": string("Its name in the study"),
        "numerator": string("Id of the cell above the line"),
        "denominator": string("Id of the cell below the line"),
        "metric": string("The metric"),
        "ratio": figure("Median of the paired ratios"),
        "low": figure("Its interval, lower end"),
        "high": figure("Its interval, upper end"),
        "confidence": {"type": ["number", "null"], "description": "How often such an interval holds the truth"},
        "pairs": count("Pairs it stands on"),
        "smallest_difference": figure("As a part of 1, what this many pairs with this scatter could have shown"),
        "p_holm": figure("Two-sided p of the paired test, Holm-corrected"),
        "modelled": figure("What the model says"),
        "published": figure("What was published"),
        "expected": {"anyOf": [range, {"type": "null"}], "description": "Inclusive range"},
        "null_control": {"type": "boolean", "description": "The same cell under two labels"},
        "met": {"type": ["boolean", "null"], "description": "Whether the expectation is met"},
    }))
}

fn sample() -> Value {
    object(json!({
        "cell": string("Id of the cell"),
        "block": count("Every cell runs once in each block"),
        "position": count("Place within the block"),
        "at_s": {"type": "number", "description": "Seconds since the run began"},
        "seconds": {"type": "number", "description": "How long it took"},
        "values": {"$ref": "#/$defs/figures"},
        "gates": list("#/$defs/gate"),
        "raw": string("File below raw/ with what the tool printed"),
    }))
}

/// An object that has all of `properties` and no other.
fn object(properties: Value) -> Value {
    let names: Vec<&String> = properties.as_object().map_or(Vec::new(), |all| all.keys().collect());
    json!({"type": "object", "required": names, "additionalProperties": false, "properties": properties})
}

fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn strings(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

fn list(of: &str) -> Value {
    json!({"type": "array", "items": {"$ref": of}})
}

fn count(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

fn figure(description: &str) -> Value {
    json!({"type": ["number", "null"], "description": description})
}
