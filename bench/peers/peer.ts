/** The interface between a peer's module and the process that measures it. */
import type { DrainSystem } from '../systems/system.ts';

/** A peer as a measured system, with facts that only the peer knows. */
export interface PeerSystem extends DrainSystem {
  /** Processes of the peer besides the measuring process; their memory is counted too. */
  readonly processes?: readonly number[];
}

/** The one export of each file in `systems/`. */
export interface PeerModule {
  /** Opens the peer in an empty directory. The variant is a name from the catalogue, or empty. */
  openPeer(directory: string, variant: string): Promise<PeerSystem>;
}
