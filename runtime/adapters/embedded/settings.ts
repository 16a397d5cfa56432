/** What differs between one embedded server and another. */
export interface ServerSettings {
  /** False: nothing survives a crash of the machine; for tests. */
  readonly durable: boolean;
  /** The folder of the Unix socket, relative to the data folder or absolute. */
  readonly socketDir: string;
}

/** Text of `turno.conf`, which postgresql.conf includes last; rewritten at every start. */
export function renderSettings({ durable, socketDir }: ServerSettings): string {
  const settings: Record<string, string> = {
    // Only through the socket, whose folder nobody but the database's account and root can enter.
    listen_addresses: "",
    unix_socket_directories: `"${socketDir.replaceAll('"', '""')}"`,
    unix_socket_permissions: "0700",
    port: "5432",
    max_connections: durable ? "100" : "300",
    shared_buffers: "128MB",
    wal_buffers: "16MB",
    max_wal_size: "2GB",
    checkpoint_timeout: "15min",
    fsync: onOff(durable),
    synchronous_commit: onOff(durable),
    full_page_writes: onOff(durable),
    // Live job rows change several times a second and are worth cleaning soon.
    autovacuum_naptime: "10s",
    random_page_cost: "1.1",
    // Compiling costs more than any statement of Turno saves.
    jit: "off",
    timezone: "UTC",
    log_timezone: "UTC",
    lc_messages: "C",
    log_min_messages: "warning",
    log_checkpoints: "off",
    logging_collector: "off",
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'`);
  return `# Written by Turno at every start; put changes of your own after the include in postgresql.conf.\n${lines.join("\n")}\n`;
}

function onOff(value: boolean): string {
  return value ? "on" : "off";
}
