/** Where a team says what it asks of its declarations, beside turno.yaml; there need not be one. */
export const RULES_FILE = "turno.rules.yaml";
