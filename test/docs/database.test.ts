import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { readDocument } from "./documents.ts";

const page = readDocument("docs/database.md");

async function openDatabase(): Promise<pg.Client> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const client = new pg.Client(database.address);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Tables, views and sequences of the migrated schema, but for partitions by day and sequences of identity columns. */
async function listRelations(client: pg.Client): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(`
    select c.relname as name
    from pg_class c
    where c.relnamespace = 'turno'::regnamespace and c.relkind in ('r', 'p', 'S', 'v') and c.relname !~ '_[0-9]{8}$'
      and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i' and c.relkind = 'S')
    order by 1`);
  return rows.map(({ name }) => name);
}

test("the page of the database names every table, view and sequence of the migrations", async () => {
  const relations = await listRelations(await openDatabase());
  expect(relations.length).toBeGreaterThan(20);
  expect(relations.filter((name) => !page.prose.includes(`\`${name}\``) && !inTree(name))).toEqual([]);
});

/** Partitions are drawn. */
function inTree(name: string): boolean {
  return page.blocks.some(({ text }) => new RegExp(`── ${name}\\b`).test(text));
}

test("the page of the database names no table that is not there", async () => {
  const relations = new Set(await listRelations(await openDatabase()));
  const inRows = [...page.prose.matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, name = ""]) => name);
  const diagram = page.blocks.find(({ language }) => language === "mermaid")?.text ?? "";
  const inDiagram = [...diagram.matchAll(/^ {2}([a-z_]+) \S+ ([a-z_]+) :/gm)].flatMap(([, from, to]) => [from, to]);
  expect(inRows.length + inDiagram.length).toBeGreaterThan(40);
  expect([...inRows, ...inDiagram].filter((name) => !relations.has(name ?? ""))).toEqual([]);
});

test("the queries on the page of the database run", async () => {
  const client = await openDatabase();
  const queries = page.blocks.filter(({ language }) => language === "sql");
  expect(queries.length).toBeGreaterThan(0);
  for (const { text } of queries) await client.query(text);
});
