"""The objects that the chart makes."""
import copy
import json
import math
import subprocess
import unittest

import kubernetes_validate
import yaml

import chart
from chart import MATRIX, Refused, documents, objects, one, pods, variables

NODE = chart.ROOT / ".tools/ops-node"
#: Kinds of other projects, with the package that has their types.
CUSTOM = {
    ("keda.sh/v1alpha1", "ScaledObject"): "keda",
    ("monitoring.coreos.com/v1", "ServiceMonitor"): "prometheus-operator",
    ("monitoring.coreos.com/v1", "PrometheusRule"): "prometheus-operator",
    ("external-secrets.io/v1", "ExternalSecret"): "external-secrets",
}


def compiler_says(custom):
    """Complaints of the TypeScript compiler about objects of CUSTOM kinds: wrong types, unknown keys, missing ones."""
    lines = []
    for number, it in enumerate(custom):
        package = CUSTOM[it["apiVersion"], it["kind"]]
        lines.append(f'import type {{ I{it["kind"]} as T{number} }} from "@kubernetes-models/{package}/{it["apiVersion"]}";')
        lines.append(f"export const o{number}: T{number} = {json.dumps(it)};")
    (NODE / "objects.ts").write_text("\n".join(lines), encoding="utf-8")
    options = "--noEmit --strict --skipLibCheck --module nodenext --moduleResolution nodenext objects.ts"
    done = subprocess.run(["node", "node_modules/typescript/bin/tsc", *options.split()], cwd=NODE, capture_output=True, text=True, check=False)
    return done.stdout


class Schemas(unittest.TestCase):
    def test_every_value_set_passes_the_linter(self):
        for name in MATRIX:
            with self.subTest(name):
                chart.helm("lint", "--strict", chart.CHART, "--values", chart.values_file(name))

    def test_every_object_is_valid_for_kubernetes(self):
        for name in MATRIX:
            for it in documents(name):
                if (it["apiVersion"], it["kind"]) not in CUSTOM:
                    with self.subTest(name, kind=it["kind"], object=it["metadata"]["name"]):
                        kubernetes_validate.validate(it, "1.37", strict=True)

    def test_a_wrong_field_is_seen(self):
        broken = copy.deepcopy(one("minimal", "Deployment", "worker"))
        broken["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"] = {"slep": {"seconds": 1}}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, "1.37", strict=True)

    @unittest.skipUnless((NODE / ".stamp").exists(), "no npm")
    def test_every_custom_object_is_valid(self):
        custom = [it for name in MATRIX for it in documents(name) if (it["apiVersion"], it["kind"]) in CUSTOM]
        self.assertEqual({(it["apiVersion"], it["kind"]) for it in custom}, set(CUSTOM))
        self.assertEqual(compiler_says(custom), "")
        broken = copy.deepcopy(custom)
        for it in broken:
            it["spec"]["unheardOf"] = 1
        self.assertEqual(compiler_says(broken).count("unheardOf"), len(broken))


class Pods(unittest.TestCase):
    def test_nothing_runs_as_root_or_writes_to_its_image(self):
        for name in MATRIX:
            for owner, pod in pods(name).items():
                with self.subTest(name, pod=owner):
                    self.assertIs(pod["automountServiceAccountToken"], False)
                    self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
                    self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                    for container in pod["containers"]:
                        security = container["securityContext"]
                        self.assertIs(security["readOnlyRootFilesystem"], True)
                        self.assertIs(security["allowPrivilegeEscalation"], False)
                        self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
                        self.assertIn("memory", container["resources"]["limits"])
                        self.assertIn("cpu", container["resources"]["requests"])
                        self.assertNotIn("command", container, "the program itself is PID 1 and gets SIGTERM")

    def test_a_worker_has_room_for_its_readers(self):
        """A reader may take 256 MiB; what the kernel kills for more may be the worker."""
        def room(readers, memory):
            return documents("minimal", worker__documents__readers=readers, worker__resources__limits__memory=memory)

        for readers, memory in ((2, "768Mi"), (2, "1G"), (2, "806M"), (6, "1.75Gi"), (2, "1000000Ki")):
            with self.subTest(readers, memory=memory):
                room(readers, memory)
        for readers, memory in ((2, "767Mi"), (3, "1000Mi"), (4, "1.2Gi"), (2, "805M"), (4, "1G")):
            with self.subTest(readers, memory=memory), self.assertRaisesRegex(Refused, f"at least {256 + 256 * readers}Mi"):
                room(readers, memory)
        documents("minimal", worker__resources={"requests": {"cpu": "1"}, "limits": None})

    def test_every_mount_has_its_volume(self):
        for name in MATRIX:
            for owner, pod in pods(name).items():
                volumes = [volume["name"] for volume in pod.get("volumes", [])]
                mounts = {mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])}
                with self.subTest(name, pod=owner):
                    self.assertEqual(sorted(mounts), sorted(volumes))

    def test_a_changed_setting_replaces_the_pods_that_read_it(self):
        def checksums(**overrides):
            found = {}
            for component in ("gateway", "worker", "web"):
                template = one("minimal", "Deployment", component, **overrides)["spec"]["template"]
                found[component] = template["metadata"]["annotations"]
            return found

        def replaced(**overrides):
            return {component for component, now in checksums(**overrides).items() if now != checksums()[component]}

        self.assertEqual(replaced(worker__slots=9), {"worker"})
        self.assertEqual(replaced(gateway__streams=9), {"gateway"})
        self.assertEqual(replaced(web__chatConfig={"login_url": "/in"}), {"web"})
        self.assertEqual(replaced(log="debug"), {"gateway", "worker"})
        self.assertEqual(replaced(secrets__revision="2"), {"gateway", "worker"})

    def test_pods_are_spread_over_zones_and_nodes(self):
        for component in ("gateway", "worker", "web"):
            spread = pods("full")[f"chat-agentchat-{component}"]["topologySpreadConstraints"]
            self.assertEqual([it["topologyKey"] for it in spread], ["topology.kubernetes.io/zone", "kubernetes.io/hostname"])
            for it in spread:
                self.assertEqual(it["labelSelector"]["matchLabels"]["app.kubernetes.io/component"], component)
        self.assertEqual(pods("full")["chat-agentchat-gateway"]["topologySpreadConstraints"][0]["whenUnsatisfiable"], "DoNotSchedule")
        self.assertNotIn("topologySpreadConstraints", pods("fixed")["chat-agentchat-worker"])

    def test_placement_goes_through(self):
        pod = pods("full")["chat-agentchat-gateway"]
        self.assertEqual(pod["nodeSelector"], {"kubernetes.io/arch": "amd64"})
        self.assertEqual(pod["tolerations"][0]["key"], "chat")
        self.assertEqual(pod["priorityClassName"], "high")
        for owner, pod in pods("full").items():
            self.assertEqual(pod["imagePullSecrets"], [{"name": "registry"}], owner)
        images = {container["image"] for pod in pods("full").values() for container in pod["containers"]}
        self.assertEqual(images, {f"registry.example.org/agentchat/{name}:1.2.3" for name in ("gateway", "worker", "web")})

    def test_probes_ask_for_what_the_programs_answer(self):
        for component, port in (("gateway", "http"), ("worker", "ops")):
            container = pods("minimal")[f"chat-agentchat-{component}"]["containers"][0]
            self.assertEqual(container["livenessProbe"]["httpGet"], {"path": "/healthz/live", "port": port})
            self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/healthz/ready", "port": port})
            self.assertIn(port, [it["name"] for it in container["ports"]])


class Secrets(unittest.TestCase):
    def test_a_container_gets_the_secrets_of_its_role_and_no_other(self):
        def secrets(component):
            return {name for name, value in variables("full", component).items() if value.startswith("[") and value != "[field]"}

        common = {"DATABASE_URL", "SEAL_KEY", "SEAL_KEYS_PREVIOUS", "SERVICE_CLIENT_SECRET"}
        self.assertEqual(secrets("gateway"), common | {"JWT_SECRET", "JWT_SECRETS_PREVIOUS"})
        self.assertEqual(secrets("worker"), common | {"OPENAI_API_KEY"})
        self.assertEqual(secrets("migrate"), {"DATABASE_URL"})
        self.assertEqual(variables("full", "migrate")["DATABASE_URL"], "[MIGRATE_DATABASE_URL]")
        self.assertNotIn("SERVICE_CLIENT_SECRET", variables("minimal", "gateway"))

    def test_no_secret_is_in_an_object_of_the_chart(self):
        self.assertFalse([it for name in MATRIX for it in documents(name) if it["kind"] == "Secret"])

    def test_an_external_store_fills_the_secret_before_the_migration(self):
        secret = objects("full")["ExternalSecret", "chat-agentchat"]
        job = one("full", "Job", "migrate")
        weight = lambda it: int(it["metadata"]["annotations"]["helm.sh/hook-weight"])
        self.assertLess(weight(secret), weight(job))
        self.assertEqual(secret["spec"]["target"], {"name": "chat-agentchat", "creationPolicy": "Orphan", "deletionPolicy": "Retain"})
        references = [variable["valueFrom"]["secretKeyRef"]["name"] for variable in job["spec"]["template"]["spec"]["containers"][0]["env"] if "valueFrom" in variable]
        self.assertEqual(references, ["chat-agentchat"])

    def test_each_role_has_its_own_nats_credentials(self):
        for component in ("gateway", "worker", "migrate"):
            pod = pods("full")[f"chat-agentchat-{component}"]
            volumes = {it["name"]: it["secret"] for it in pod["volumes"] if "secret" in it}
            self.assertEqual(volumes["nats-creds"]["items"], [{"key": f"{component}.creds", "path": "user.creds"}])
            self.assertEqual(volumes["nats-ca"]["items"], [{"key": "tls-ca.pem", "path": "ca.crt"}])
            self.assertEqual(volumes["postgres-ca"]["items"], [{"key": "ca.crt", "path": "ca.crt"}])
            mounts = {it["name"]: it["mountPath"] for it in pod["containers"][0]["volumeMounts"]}
            settings = variables("full", component)
            self.assertEqual(settings["NATS_CREDS"], mounts["nats-creds"] + "/user.creds")
            self.assertEqual(settings["NATS_CA"], mounts["nats-ca"] + "/ca.crt")
            self.assertEqual(mounts["postgres-ca"], "/etc/agentchat/postgres")
            self.assertNotIn("NATS_CREDS", variables("minimal", component))


    def test_a_key_of_nats_may_stand_for_credentials(self):
        for component, key in (("gateway", "gateway.nk"), ("worker", "worker-seed"), ("migrate", "migrate.nk")):
            container = pods("no-operators")[f"chat-agentchat-{component}"]["containers"][0]
            found = [it["valueFrom"]["secretKeyRef"] for it in container["env"] if it["name"] == "NATS_NKEY"]
            self.assertEqual(found, [{"name": "nats-nkeys", "key": key}], component)
            self.assertNotIn("NATS_CREDS", variables("no-operators", component))
            self.assertNotIn("NATS_NKEY", variables("full", component))

    def test_spans_go_to_the_collector_that_is_named(self):
        for component in ("gateway", "worker"):
            self.assertEqual(variables("full", component)["OTEL_EXPORTER_OTLP_ENDPOINT"], "http://collector.monitoring.svc:4318")
            self.assertNotIn("OTEL_EXPORTER_OTLP_ENDPOINT", variables("minimal", component))


class Scaling(unittest.TestCase):
    def test_whoever_scales_owns_the_number_of_pods(self):
        for name, component, replicas, scaler in (
            ("minimal", "gateway", None, ("HorizontalPodAutoscaler", "autoscaling/v2")),
            ("minimal", "worker", None, ("ScaledObject", "keda.sh/v1alpha1")),
            ("no-operators", "worker", None, ("HorizontalPodAutoscaler", "autoscaling/v2")),
            ("fixed", "gateway", 1, None),
            ("fixed", "worker", 3, None),
        ):
            with self.subTest(name, component=component):
                self.assertEqual(one(name, "Deployment", component)["spec"].get("replicas"), replicas)
                scalers = {(it["kind"], it["apiVersion"]) for it in documents(name)
                           if it.get("spec", {}).get("scaleTargetRef", {}).get("name") == f"chat-agentchat-{component}"}
                self.assertEqual(scalers, {scaler} if scaler else set())

    def test_keda_counts_what_waits_and_what_runs(self):
        spec = one("minimal", "ScaledObject", "worker")["spec"]
        trigger = spec["triggers"][0]
        self.assertEqual(trigger["type"], "nats-jetstream")
        self.assertEqual(
            trigger["metadata"],
            {
                "natsServerMonitoringEndpoint": "nats-headless.nats.svc.cluster.local:8222",
                "account": "$G",
                "stream": "AGENT_JOBS",
                "consumer": "workers",
                "lagThreshold": "6",
                "activationLagThreshold": "0",
                "useHttps": "false",
            },
        )
        self.assertGreaterEqual(spec["minReplicaCount"], 1)
        self.assertEqual(spec["fallback"], {"failureThreshold": 3, "replicas": 4})

    def test_stream_and_consumer_are_called_as_in_the_contract(self):
        names = (chart.ROOT / "shared/contract/src/subject.rs").read_text(encoding="utf-8")
        metadata = one("minimal", "ScaledObject", "worker")["spec"]["triggers"][0]["metadata"]
        self.assertIn(f'"{metadata["stream"]}"', names)
        self.assertIn(f'"{metadata["consumer"]}"', names)

    def test_a_pod_has_room_before_the_next_one_is_asked_for(self):
        for slots in (1, 2, 8, 16, 100):
            metadata = one("minimal", "ScaledObject", "worker", worker__slots=slots)["spec"]["triggers"][0]["metadata"]
            self.assertEqual(int(metadata["lagThreshold"]), max(1, math.floor(slots * 0.75)))

    def test_busy_pods_are_taken_away_one_by_one_and_late(self):
        expected = {"stabilizationWindowSeconds": 300, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
        keda = one("minimal", "ScaledObject", "worker")["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        self.assertEqual(keda["scaleDown"], expected)
        self.assertEqual(one("no-operators", "HorizontalPodAutoscaler", "worker")["spec"]["behavior"]["scaleDown"], expected)

    def test_an_update_starts_new_pods_first(self):
        for component in ("gateway", "worker", "web"):
            self.assertEqual(one("minimal", "Deployment", component)["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
            budget = one("minimal", "PodDisruptionBudget", component)["spec"]
            self.assertEqual(budget["maxUnavailable"], 1)
            self.assertEqual(budget["selector"], one("minimal", "Deployment", component)["spec"]["selector"])
        self.assertEqual({kind for kind, _ in objects("fixed") if "Disruption" in kind}, set())


class Network(unittest.TestCase):
    def policy(self, component, name="full"):
        return one(name, "NetworkPolicy", component)["spec"]

    def test_workers_serve_nobody_but_the_monitoring(self):
        self.assertEqual(
            self.policy("worker")["ingress"],
            [{"ports": [{"port": "ops"}], "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]}],
        )

    def test_every_pod_may_go_where_it_must_and_nowhere_else(self):
        ports = lambda component: [[port["port"] for port in rule["ports"]] for rule in self.policy(component)["egress"]]
        self.assertEqual(ports("gateway"), [[53, 53], [4222], [5432], [4318]])
        self.assertEqual(ports("worker"), [[53, 53], [4222], [5432], [4318], ["http"], [443]])
        self.assertEqual(ports("web"), [[53, 53], ["http"]])
        self.assertEqual(self.policy("gateway")["egress"][2]["to"], [{"ipBlock": {"cidr": "10.1.2.0/24"}}])
        self.assertEqual(self.policy("gateway")["egress"][3]["to"], [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}])
        self.assertNotIn([{"port": 4318}], [rule["ports"] for rule in self.policy("gateway", "minimal")["egress"]])
        for component in ("gateway", "worker", "web"):
            self.assertEqual(self.policy(component)["policyTypes"], ["Ingress", "Egress"])

    def test_what_is_let_in_by_name_includes_our_own_pods(self):
        for component in ("gateway", "web"):
            labels = [peer.get("podSelector", {}).get("matchLabels") for peer in self.policy(component)["ingress"][0]["from"]]
            self.assertIn({"app.kubernetes.io/instance": "chat", "app.kubernetes.io/part-of": "agentchat"}, labels)
            self.assertEqual(one("full", "Deployment", "web")["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/part-of"], "agentchat")

    def test_policies_can_be_left_out(self):
        self.assertFalse([kind for kind, _ in objects("no-operators") if kind == "NetworkPolicy"])

    def test_the_ingress_lets_events_through_as_they_come(self):
        ingress = objects("full")["Ingress", "chat-agentchat"]
        notes = {key.rpartition("/")[2]: value for key, value in ingress["metadata"]["annotations"].items()}
        self.assertEqual(notes["proxy-buffering"], "off")
        self.assertEqual(notes["proxy-request-buffering"], "off")
        self.assertEqual(notes["cluster-issuer"], "main")
        rule = ingress["spec"]["rules"][0]
        self.assertEqual(
            [(path["path"], path["backend"]["service"]["name"]) for path in rule["http"]["paths"]],
            [("/api", "chat-agentchat-gateway"), ("/", "chat-agentchat-web")],
        )
        self.assertEqual(ingress["spec"]["tls"], [{"hosts": ["chat.example.org"], "secretName": "chat-tls"}])
        self.assertEqual(variables("full", "gateway")["GATEWAY_PREFIX"], "/api/agent/gradio")


class Monitoring(unittest.TestCase):
    def test_both_services_are_scraped(self):
        for component in ("gateway", "worker"):
            monitor = one("full", "ServiceMonitor", component)
            self.assertEqual(monitor["metadata"]["labels"]["release"], "prometheus")
            service = one("full", "Service", component)
            self.assertEqual(monitor["spec"]["endpoints"][0]["path"], "/metrics")
            self.assertIn(monitor["spec"]["endpoints"][0]["port"], [port["name"] for port in service["spec"]["ports"]])
            labels = service["metadata"]["labels"]
            self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), labels.items())

    def test_the_rule_is_the_file_with_full_links(self):
        rule = objects("full")["PrometheusRule", "chat-agentchat"]["spec"]
        plain = yaml.safe_load((chart.CHART / "files/alerts.yaml").read_text(encoding="utf-8"))
        for group in plain["groups"]:
            for alert in group["rules"]:
                notes = alert["annotations"]
                notes["runbook_url"] = "https://git.example.org/agentchat/blob/main/" + notes["runbook_url"]
        self.assertEqual(rule, plain)

    def test_the_dashboard_is_the_file(self):
        data = one("full", "ConfigMap", "dashboard")["data"]["agentchat.json"]
        self.assertEqual(json.loads(data), json.loads((chart.CHART / "files/dashboard.json").read_text(encoding="utf-8")))


class Hooks(unittest.TestCase):
    def test_the_migration_runs_before_the_new_pods(self):
        job = one("minimal", "Job", "migrate")
        self.assertEqual(job["metadata"]["annotations"]["helm.sh/hook"], "pre-install,pre-upgrade")
        container = job["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["args"], ["migrate"])
        self.assertEqual(container["image"], pods("minimal")["chat-agentchat-gateway"]["containers"][0]["image"])
        self.assertFalse([kind for kind, _ in objects("fixed") if kind == "Job"])
        # A hook comes before everything else: it must need nothing that the release makes.
        made = {name for (kind, name), it in objects("minimal").items() if kind == "ConfigMap"}
        self.assertFalse([name for name in made if name in json.dumps(job["spec"])])

    def test_helm_test_asks_gateway_and_page(self):
        pod = one("minimal", "Pod", "test")
        self.assertEqual(pod["metadata"]["annotations"]["helm.sh/hook"], "test")
        self.assertEqual(
            [container["args"] for container in pod["spec"]["containers"]],
            [["probe", "chat-agentchat-gateway:80"], ["probe", "chat-agentchat-web:80"]],
        )
        self.assertEqual(len(one("fixed", "Pod", "test")["spec"]["containers"]), 1)


class Mistakes(unittest.TestCase):
    """What can't work is refused, with a sentence that names the value."""

    def test_each_is_refused(self):
        for sentence, name, overrides in (
            ("nats.urls is empty", "minimal", {"nats__urls": []}),
            ("secrets.existing is empty", "minimal", {"secrets__existing": ""}),
            ("exclude each other", "full", {"secrets__existing": "x"}),
            ("secrets.external.store.name is empty", "full", {"secrets__external__store__name": ""}),
            ("worker.model.name is empty", "minimal", {"worker__model__name": ""}),
            ("worker.backend.url is empty", "minimal", {"worker__backend__url": ""}),
            ("monitoringEndpoint is empty", "minimal", {"worker__autoscaling__keda__monitoringEndpoint": ""}),
            ("ingress.host is empty", "full", {"ingress__host": ""}),
            ("timing.heartbeatMs must be at most half", "minimal", {"timing__heartbeatMs": 8000}),
            ("timing.leaseMs must be at most timing.ackWaitMs", "minimal", {"timing__leaseMs": 16000}),
            ("must be at least 10000", "minimal", {"timing__leaseMs": 9000}),
            ("minReplicas is above maxReplicas", "minimal", {"worker__autoscaling__minReplicas": 21}),
            ("minReplicas is above maxReplicas", "minimal", {"gateway__autoscaling__minReplicas": 11}),
            ("worker.terminationGracePeriodSeconds is 40", "minimal", {"worker__terminationGracePeriodSeconds": 40}),
            ("gateway.terminationGracePeriodSeconds is 31", "minimal", {"gateway__terminationGracePeriodSeconds": 31}),
        ):
            with self.subTest(sentence, **overrides), self.assertRaisesRegex(Refused, sentence):
                documents(name, **overrides)

    def test_the_chart_alone_is_refused(self):
        with self.assertRaises(Refused):
            chart.helm("template", "chat", chart.CHART)


if __name__ == "__main__":
    unittest.main()
