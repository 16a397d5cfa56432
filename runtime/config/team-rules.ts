import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { Json, JsonObject } from "../core/json.ts";
import { RULES_FILE } from "../core/project-files.ts";
import { problemAt, type ValidDocument } from "./documents.ts";
import { compileExpression, type Expression } from "./expression.ts";
import { type LoadedDocument, loadFile } from "./load.ts";
import type { ObjectKind } from "./objects.ts";
import { describeValue, type Problem } from "./problems.ts";
import { RULES_SCHEMA } from "./rules-schema.generated.ts";
import { translateErrors } from "./schema-problems.ts";
import { isMapping } from "./schema-walk.ts";

/** One rule, ready to be asked. */
interface TeamRule extends RuleDocument {
  readonly expression: Expression;
  readonly line: number;
}

/** As the schema describes it, with its defaults filled in. */
interface RuleDocument {
  readonly name: string;
  /** Absent: all but the Project. */
  readonly kinds?: readonly ObjectKind[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly require: string;
  readonly message: string;
  readonly severity: "error" | "warning";
}

/** Asks each valid document what the rules say of it. What is wrong with the rules themselves is a problem of their file. */
export function checkTeamRules(content: Uint8Array | string, documents: readonly ValidDocument[]): readonly Problem[] {
  const { documents: sources, problems: found } = loadFile(RULES_FILE, content);
  const problems = [...found];
  const rules = sources.flatMap((source) => readRules(source, problems));
  for (const rule of rules) {
    for (const document of documents) {
      if (isAbout(rule, document)) problems.push(...askRule(rule, document));
    }
  }
  return problems;
}

let validator: ValidateFunction | null = null;

function readRules(source: LoadedDocument, problems: Problem[]): readonly TeamRule[] {
  if (!isMapping(source.value) || source.value.kind !== "Rules") {
    const kind = isMapping(source.value) ? source.value.kind : source.value;
    const message = `expected a document of kind Rules, found ${describeValue(kind)}`;
    problems.push(problemAt(source, { code: "TURNO_CONFIG_UNKNOWN_KIND", path: ["kind"], message }));
    return [];
  }
  validator ??= createValidator();
  // Defaults are filled into a copy: aliases share their values.
  const copy = JSON.parse(JSON.stringify(source.value)) as JsonObject & {
    readonly spec: { readonly rules: readonly RuleDocument[] };
  };
  if (!validator(copy)) {
    const errors = translateErrors((validator.errors ?? []) as ErrorObject[]);
    problems.push(...errors.map((problem) => problemAt(source, problem)));
    return [];
  }
  const names = new Set<string>();
  return copy.spec.rules.flatMap((rule, index) => {
    const path = ["spec", "rules", index];
    const refuse = (field: string, message: string): [] => {
      problems.push(problemAt(source, { code: "TURNO_RULE_INVALID", path: [...path, field], message }));
      return [];
    };
    if (names.has(rule.name))
      return refuse("name", `expected each rule to have a name of its own, found ${rule.name} twice`);
    names.add(rule.name);
    const compiled = compileExpression(rule.require, ["object"]);
    if (!compiled.ok) return refuse("require", compiled.message);
    return [{ ...rule, expression: compiled.expression, line: source.locate([...path, "name"], "key").line }];
  });
}

function createValidator(): ValidateFunction {
  const ajv = new Ajv2020({ allErrors: true, verbose: true, useDefaults: true, strictTypes: false });
  ajv.addVocabulary(["expected"]);
  return ajv.compile(RULES_SCHEMA);
}

function isAbout({ kinds, labels = {} }: TeamRule, { kind, document }: ValidDocument): boolean {
  if (kinds === undefined ? kind === "Project" : !kinds.includes(kind)) return false;
  const own: Readonly<Record<string, string>> = document.metadata.labels ?? {};
  return Object.entries(labels).every(([name, value]) => own[name] === value);
}

function askRule(rule: TeamRule, { kind, name, document, source }: ValidDocument): readonly Problem[] {
  const { metadata } = document;
  // What may be absent is empty, so that `has(object.metadata.labels.owner)` is an answer everywhere.
  const object = { ...document, metadata: { ...metadata, labels: metadata.labels ?? {} } } as unknown as Json;
  const answer = rule.expression.evaluate({ object });
  if (answer.ok && answer.text === "true") return [];
  const where = `rule ${rule.name} (${RULES_FILE}:${rule.line})`;
  const at = { path: ["metadata", "name"], severity: rule.severity } as const;
  if (answer.ok && answer.text === "false") {
    return [
      problemAt(source, { ...at, code: "TURNO_RULE_BROKEN", message: `${kind}/${name}: ${rule.message}`, hint: where }),
    ];
  }
  const why = answer.ok ? `expected true or false, found ${describeValue(answer.text)}` : answer.message;
  const message = `${kind}/${name}: ${where} gives no answer: ${why}`;
  return [problemAt(source, { ...at, code: "TURNO_RULE_INVALID", message })];
}
