/** Answers `audit.page`: a part of a shard's audit log. */
import type { HandlersOf } from '../protocol/protocol.ts';
import { auditPart } from '../reading/audit-reader.ts';
import type { ShardDoor } from './shard-door.ts';

/** See the head of the file. */
export function auditRequests(door: ShardDoor): HandlersOf<'audit'> {
  const { journal, soon } = door.shard.parts;
  return {
    'audit.page': (request) =>
      auditPart(
        (after, limit) => door.readDurable(() => journal.audit.read(after, limit)),
        request,
        () => new Promise((resolve) => soon(resolve)),
      ),
  };
}
