import type { Command } from "commander";
import { nearestName } from "../../config/problems.ts";
import { KINDS } from "../../config/schema.generated.ts";
import { selectSchema } from "../../config/schema-selection.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";

/** `turno schema [KIND]`: the JSON Schema of all documents, for editors, or of one kind. */
export function addSchemaCommand(program: Command, io: CommandIo, setExitCode: (code: ExitCode) => void): void {
  program
    .command("schema")
    .description("print the JSON Schema of the documents")
    .argument("[kind]", `one of ${KINDS.join(", ")} (default: all)`)
    .action((kind: string | undefined) => {
      const schema = selectSchema(kind ?? null);
      if (schema === null) {
        const nearest = nearestName(kind ?? "", KINDS);
        const hint = nearest === null ? "" : `; did you mean ${nearest}?`;
        io.err(`turno schema: expected one of ${KINDS.join(", ")}, found "${kind}"${hint}\n`);
        setExitCode(EXIT.usage);
        return;
      }
      printJson(io, schema);
      setExitCode(EXIT.done);
    });
}
