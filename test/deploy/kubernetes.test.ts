import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { loadProject } from "../../runtime/config/load-project.ts";
import { resolveRuntimeSettings } from "../../runtime/config/runtime-settings.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createHealthApp } from "../../web/health-app.ts";
import { ROOT, readRootFile, unknownWords } from "./deployment-files.ts";

const FOLDER = "deploy/kubernetes/";

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds: number;
  readonly failureThreshold?: number;
}

interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly env: readonly {
    readonly name: string;
    readonly valueFrom: {
      readonly secretKeyRef: { readonly name: string; readonly key: string; readonly optional?: boolean };
    };
  }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly readinessProbe: Probe;
  readonly livenessProbe: Probe;
  readonly resources: { readonly limits: { readonly memory: string } };
  readonly securityContext: unknown;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

interface PodSpec {
  readonly automountServiceAccountToken: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: unknown;
  readonly containers: readonly [Container];
  readonly volumes: readonly { readonly name: string }[];
}

interface Labelled {
  readonly matchLabels: Readonly<Record<string, string>>;
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly replicas: number;
    readonly selector: Labelled & Readonly<Record<string, string>>;
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: PodSpec;
    };
    readonly ports: readonly { readonly targetPort: string }[];
  };
  readonly stringData?: Readonly<Record<string, string>>;
}

function read(file: string): readonly Manifest[] {
  return parseAllDocuments(readRootFile(`${FOLDER}${file}`)).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  });
}

interface Kustomization {
  readonly resources: readonly string[];
  readonly images: readonly { readonly name: string; readonly newTag: string }[];
  readonly configMapGenerator: readonly { readonly name: string; readonly files: readonly string[] }[];
}

const kustomization = read("kustomization.yaml")[0] as unknown as Kustomization;
const manifests = kustomization.resources.flatMap(read);
const deployments = manifests.filter(({ kind }) => kind === "Deployment");
const roles = deployments.map(({ metadata, spec }) => ({
  name: metadata.name.replace("turno-", ""),
  pod: spec.template.spec,
  container: spec.template.spec.containers[0],
  labels: spec.template.metadata.labels,
  selector: spec.selector.matchLabels,
}));
const { project, problems } = loadProject(new Map([["turno.yaml", readRootFile(`${FOLDER}turno.yaml`)]]));
const [secret] = read("secret.example.yaml");

test("every manifest is listed, and every one listed is there", () => {
  const listed = [...kustomization.resources, ...kustomization.configMapGenerator.flatMap(({ files }) => files)];
  const there = readdirSync(`${ROOT}${FOLDER}`).filter((name) => name.endsWith(".yaml"));
  expect(there.sort()).toEqual([...listed, "kustomization.yaml", "secret.example.yaml"].sort());
});

test("there are servers, a reconciler and workers, each of the image's version, with selectors that find them", () => {
  const { version } = JSON.parse(readRootFile("package.json")) as { version: string };
  expect(roles.map(({ name }) => name)).toEqual(["server", "reconciler", "worker"]);
  expect(kustomization.images).toEqual([{ name: "turno", newTag: version }]);
  for (const { container, labels, selector } of roles) {
    expect(container.image).toBe("turno");
    expect(labels).toEqual(selector);
  }
  const labelled = (wanted: unknown) => roles.some(({ labels }) => JSON.stringify(labels) === JSON.stringify(wanted));
  const others = manifests.filter(({ kind }) => kind === "Service" || kind === "PodDisruptionBudget");
  expect(others.map(({ kind, metadata }) => `${kind}/${metadata.name}`)).toEqual([
    "Service/turno-server",
    "PodDisruptionBudget/turno-server",
    "PodDisruptionBudget/turno-worker",
  ]);
  for (const { kind, spec } of others) {
    expect(labelled(kind === "Service" ? spec.selector : spec.selector.matchLabels)).toBe(true);
  }
});

test("the pods meet the restricted standard, with a root file system that can only be read, and within limits", () => {
  expect(manifests.find(({ kind }) => kind === "Namespace")?.metadata).toMatchObject({
    labels: { "pod-security.kubernetes.io/enforce": "restricted" },
  });
  for (const { pod, container } of roles) {
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 1000,
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect(container.resources.limits.memory).toMatch(/^\d+(Mi|Gi)$/);
    expect(container.volumeMounts.map(({ mountPath }) => mountPath)).toEqual([
      "/tmp",
      "/project/.turno",
      "/project/turno.yaml",
    ]);
    expect(container.volumeMounts.map(({ name }) => name).sort()).toEqual(pod.volumes.map(({ name }) => name).sort());
  }
});

describe("each role", () => {
  test("is started by a command and options that Turno has", async () => {
    for (const { name, container } of roles) {
      expect(container.args[0]).toBe(name);
      expect(await unknownWords(container.args)).toEqual([]);
    }
  });

  test("is asked for its health where it answers, from other machines", async () => {
    const app = createHealthApp({
      logger: silentLogger,
      health: async () => ({ database: { status: "up", detail: null } }),
    });
    for (const { container } of roles) {
      const { args, ports } = container;
      const wordAfter = (option: RegExp) => args[args.findIndex((word) => option.test(word)) + 1];
      expect(wordAfter(/^--(health-)?host$/)).toBe("0.0.0.0");
      expect(ports).toEqual([expect.objectContaining({ containerPort: Number(wordAfter(/^--(health-)?port$/)) })]);
      for (const { httpGet } of [container.startupProbe, container.readinessProbe, container.livenessProbe]) {
        expect(httpGet.port).toBe(ports[0]?.name);
        expect((await app.request(httpGet.path)).status).toBe(200);
      }
      // Not ready is no reason to be killed: the database may be away.
      expect(container.livenessProbe.httpGet.path).toBe("/health/live");
      expect(container.readinessProbe.httpGet.path).toBe("/health/ready");
    }
    expect(manifests.find(({ kind }) => kind === "Service")?.spec.ports[0]?.targetPort).toBe(
      roles[0]?.container.ports[0]?.name,
    );
  });

  test("of the servers has ten minutes to migrate before it is given up", () => {
    const { periodSeconds, failureThreshold = 3 } = roles[0]?.container.startupProbe ?? { periodSeconds: 0 };
    expect(periodSeconds * failureThreshold).toBeGreaterThanOrEqual(600);
  });

  test("has time to drain: longer than shutdownTimeout and the end of its handlers", () => {
    const drainMs = (project?.spec.runtime.worker.shutdownTimeoutMs ?? Number.NaN) + 15_000;
    for (const { pod } of roles) expect(pod.terminationGracePeriodSeconds * 1_000).toBeGreaterThan(drainMs);
  });

  test("takes what it must not show from the secret, whose example names all of it and holds none", () => {
    const values = secret?.stringData ?? {};
    for (const { container } of roles) {
      for (const { name, valueFrom } of container.env) {
        expect(valueFrom.secretKeyRef).toMatchObject({ name: secret?.metadata.name, key: name });
        expect(Object.keys(values)).toContain(name);
      }
    }
    expect(Object.entries(values).filter(([, value]) => !/<[^>]+>/.test(value))).toEqual([]);
    expect(readFileSync(`${ROOT}.gitignore`, "utf8")).toContain("deploy/kubernetes/secret.yaml");
    const withKeys = roles.filter(({ container }) => container.env.some(({ name }) => name === "TURNO_API_KEYS"));
    expect(withKeys.map(({ name }) => name)).toEqual(["server"]);
  });

  test("finds its settings in the project's file and in variables that Turno has", () => {
    expect(problems.filter(({ severity }) => severity === "error")).toEqual([]);
    if (project === null) throw new Error("no project");
    for (const { container } of roles) {
      const env = Object.fromEntries(container.env.map(({ name }) => [name, secret?.stringData?.[name]]));
      const settings = resolveRuntimeSettings(project.spec, env, () => "");
      expect(settings).toMatchObject({
        database: { url: secret?.stringData?.TURNO_DATABASE_URL },
        broker: { transport: "rabbitmq", rabbitmq: { url: secret?.stringData?.TURNO_RABBITMQ_URL } },
        locks: { driver: "redlock", redlock: { urls: [secret?.stringData?.TURNO_RUNTIME_LOCKS_REDLOCK_URLS_0] } },
      });
    }
  });
});
