//! Random bytes of the kernel.

use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes` with random ones; waits until the kernel has any, soon after its start (getrandom(2)).
///
/// The system call itself: a library that also knows kernels without it looks for the function by name, which a static
/// executable cannot, and then opens two devices instead.
pub fn fill(mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            // The call breaks off for a signal, but never without an error or a byte.
            Ok(count) => bytes = bytes.get_mut(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns a fresh identity for a call.
pub fn call_id() -> Result<String, stockade_wire::errors::Failure> {
    let mut random = [0; 16];
    fill(&mut random)
        .map_err(|_| stockade_wire::errors::broken("cannot get random bytes from the system"))?;
    Ok(crate::hex(&random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_filled() {
        let mut all = vec![0_u8; 3 << 20];
        fill(&mut all).unwrap();
        // Of so many pieces not one is all zeros, unless somebody forgot it.
        assert_eq!(all.chunks(16).position(|piece| piece == [0; 16]), None);
        fill(&mut []).unwrap();
    }
}
