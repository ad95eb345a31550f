"""Renders helm/agentchat: objects by kind and name."""
import functools
import json
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/agentchat"
HELM = ROOT / ".tools/helm/helm"
#: Value sets that together switch everything on and off; the first is the least that must be said.
MATRIX = ("minimal", "full", "no-operators", "fixed")
RELEASE = "chat"


class Refused(Exception):
    pass


def helm(*arguments):
    done = subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


@functools.lru_cache(maxsize=None)
def rendered(files, overrides):
    arguments = ["template", RELEASE, CHART, "--namespace", "chat"]
    for file in files:
        arguments += ["--values", file]
    for override in overrides:
        arguments += ["--set-json", override]
    return [document for document in yaml.safe_load_all(helm(*arguments)) if document]


def values_file(name):
    return CHART / "ci" / f"{name}.yaml"


def documents(name, **overrides):
    """Of the value set `name`, changed by overrides like `worker__slots=16`."""
    changes = tuple(f"{key.replace('__', '.')}={json.dumps(value)}" for key, value in overrides.items())
    return rendered((values_file(name),), changes)


def objects(name, **overrides):
    return {(it["kind"], it["metadata"]["name"]): it for it in documents(name, **overrides)}


def one(name, kind, component, **overrides):
    return objects(name, **overrides)[kind, f"{RELEASE}-agentchat-{component}"]


def pods(name, **overrides):
    """Every pod, or pod of a template, by name of its owner."""
    found = {}
    for it in documents(name, **overrides):
        if it["kind"] in ("Deployment", "Job"):
            found[it["metadata"]["name"]] = it["spec"]["template"]["spec"]
        elif it["kind"] == "Pod":
            found[it["metadata"]["name"]] = it["spec"]
    return found


def variables(name, component, **overrides):
    """What the container of `component` gets from its environment: value, or the Secret's key in brackets."""
    pod = pods(name, **overrides)[f"{RELEASE}-agentchat-{component}"]
    container = pod["containers"][0]
    found = {}
    for source in container.get("envFrom", []):
        found.update(objects(name, **overrides)["ConfigMap", source["configMapRef"]["name"]]["data"])
    for variable in container.get("env", []):
        origin = variable.get("valueFrom", {})
        found[variable["name"]] = variable.get("value") or f"[{origin.get('secretKeyRef', origin.get('fieldRef', {})).get('key', 'field')}]"
    return found
