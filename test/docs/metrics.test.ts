import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { INSTALLATION_METRICS, PROCESS_METRICS } from "../../web/metrics.ts";
import { ROOT, readDocument } from "./documents.ts";

const metrics = [...INSTALLATION_METRICS, ...PROCESS_METRICS];

it("docs/metrics.md lists the metrics of the code with their labels and meanings, and no others", () => {
  const listed = readDocument("docs/metrics.md")
    .text.split("\n")
    .filter((line) => line.startsWith("| `turno_"));
  const expected = metrics.map(
    ({ name, labels, help }) => `| \`${name}\` | ${labels.map((label) => `\`${label}\``).join(", ")} | ${help} |`,
  );
  expect(listed).toEqual(expected);
});

it("docs/alerts.yaml holds rules that Prometheus can read, over metrics that exist", () => {
  const { groups } = parse(readFileSync(join(ROOT, "docs/alerts.yaml"), "utf8"), { strict: true }) as {
    groups: {
      name: string;
      rules: { alert: string; expr: string; for?: string; annotations: { summary: string } }[];
    }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  expect(rules.length).toBeGreaterThan(5);
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  for (const { alert, expr, for: lasting, annotations } of rules) {
    expect(alert).toMatch(/^Turno[A-Z][A-Za-z]+$/);
    expect(lasting ?? "0m").toMatch(/^\d+[smh]$/);
    expect(annotations.summary).not.toBe("");
    const named = [...expr.matchAll(/turno_\w+/g)].map(([name]) => name);
    expect(named).not.toEqual([]);
    expect(named.filter((name) => !metrics.some((metric) => metric.name === name))).toEqual([]);
    for (const [, name = "", selector = ""] of expr.matchAll(/(turno_\w+)\{([^}]*)\}/g)) {
      const labels = [...selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => label);
      const known = metrics.find((metric) => metric.name === name)?.labels ?? [];
      expect(labels.filter((label) => label === undefined || !known.includes(label))).toEqual([]);
    }
  }
});
