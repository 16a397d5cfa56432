/** A statement that code of the version before may not survive. */
export interface Narrowing {
  readonly rule: string;
  readonly statement: string;
}

interface Rule {
  readonly name: string;
  readonly breaks: (statement: string, migration: string) => boolean;
}

const RULES: readonly Rule[] = [
  {
    name: "takes away what older code may use",
    breaks: (statement) =>
      /^drop (?!trigger)/.test(statement) || /\bdrop column\b|\bdrop default\b|\bdetach partition\b/.test(statement),
  },
  {
    name: "renames what older code calls by its name",
    breaks: (statement) => /\brename\b|\bset schema\b/.test(statement),
  },
  {
    name: "changes a type that older code reads or writes",
    breaks: (statement) => /\balter (column )?\w+ (set data )?type\b/.test(statement),
  },
  { name: "asks for a value that older code does not write", breaks: demandsValue },
  { name: "refuses what older code may write", breaks: refusesMore },
  { name: "throws data away", breaks: (statement) => /^(truncate|delete from)\b/.test(statement) },
  { name: "takes rights away", breaks: (statement) => /^revoke\b/.test(statement) },
];

/** What in a migration is no expansion: for a file without a contract's mark there must be nothing. */
export function findNarrowings(migration: string): readonly Narrowing[] {
  const text = migration
    .toLowerCase()
    .replaceAll(/--[^\n]*/g, "")
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    // What a function does when it is called is no change of the schema.
    .replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
    .replaceAll(/\s+/g, " ");
  return text
    .split(";")
    .map((statement) => statement.trim())
    .flatMap((statement) =>
      RULES.filter(({ breaks }) => breaks(statement, text)).map(({ name }) => ({ rule: name, statement })),
    );
}

function demandsValue(statement: string, migration: string): boolean {
  if (/\bset not null\b/.test(statement)) return true;
  if (!statement.startsWith("alter table") || isNew(statement, migration)) return false;
  return statement
    .split(/\badd column\b/)
    .slice(1)
    .some((column) => /\bnot null\b/.test(column) && !/\bdefault\b|\bgenerated\b/.test(column));
}

function refusesMore(statement: string, migration: string): boolean {
  if (isNew(statement, migration)) return false;
  if (statement.startsWith("create unique index")) return true;
  // A constraint that comes back under its name is one that was widened.
  const dropped = (name: string) =>
    migration.includes(`drop constraint ${name}`) || migration.includes(`drop constraint if exists ${name}`);
  const added = (name: string) => migration.includes(`add constraint ${name}`);
  const constraints = [...statement.matchAll(/\b(add|drop) constraint (?:if exists )?(\w+)/g)];
  return constraints.some(([, verb, name = ""]) => (verb === "add" ? !dropped(name) : !added(name)));
}

/** The statement is about a table that the migration makes itself. */
function isNew(statement: string, migration: string): boolean {
  const [, table] =
    /^(?:alter table (?:if exists )?(?:only )?|create unique index .*? on (?:only )?)([\w.]+)/.exec(statement) ?? [];
  return (
    table !== undefined && new RegExp(`\\bcreate table (if not exists )?${table.replace(".", "\\.")} `).test(migration)
  );
}
